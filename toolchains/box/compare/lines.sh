# shellcheck shell=bash
# base64, cksum, cmp, comm, expr, fold, join, md5sum, nl, od, paste, split, tac: see compare.sh.

same expr 1 + 2
same expr 5 - 7
same expr 3 '*' 4 + 2
same expr 2 + 3 '*' 4
same expr 7 / 2
same expr -7 / 2
same expr -7 % 3
same expr '(' 1 + 2 ')' '*' 3
same expr 1 / 0
same expr a + 1
same expr 10 '<' 9
same expr 10 '<' 9a
same expr a '<' b
same expr 1 = 1.0
same expr 3 '>=' 3
same expr a != b
same expr a == a
same expr 0 '|' 5
same expr '' '|' ''
same expr abc '|' 5
same expr 1 '&' 0
same expr 2 '&' 3
same expr abc : 'a\(.\)c'
same expr abc : 'a.'
same expr abc : 'b'
same expr abc : '\(b\)'
same expr X/usr/lib/x.so : 'X\(/.*\)/[^/]*$'
same expr /usr/bin/gcc : '.*/\([^/]*\)'
same expr foo.c : '.*\.c$'
same expr a : '.*'
same expr '' : '.*'
same expr x-y : 'x\(-*\)y'
same expr a.b.c : '\([a-z]*\)\.\([a-z]*\)'
same expr X-opt=val : 'X[^=]*=\(.*\)'
same expr X--prefix=/usr : 'X[^=]*=\(.*\)'
same expr 00 : '0*$'
same expr length abcd
same expr substr abcdef 2 3
same expr substr abc 5 1
same expr index abcdef dx
same expr match abc 'b'
same expr + length
same expr
same expr 1 +
same expr 1 2
same expr '(' 1
same expr 1 ')'
same expr 0
same expr 000
same expr -0
same expr ''
same expr x
same expr -- -5 + 3
same expr 9223372036854775807
same expr a : 'a\('

reads 'one\ntwo three\n\nfour\tx\nlast'
same tac
same tac -s e
same tac -b -s t
same nl
same nl -ba
same nl -bn
same nl -w3 -s: -ba
same nl -n ln
same nl -nrz -v10 -i5
same fold -w5
same fold -w 10 -s
same fold -b -w 4
same fold
same paste
same paste -
same paste - -
same paste -s
same paste -sd,
same paste -d '\n' - -
same paste -s -d '\t\n'
same paste -d, - - -
same od
same od -c
same od -An -tx1
same od -An -tx1 -v
same od -Ax -tx1z
same od -t x2
same od -tx4 -Ad
same od -b
same od -d
same od -t u1 -t c
same od -tx1 -tc
same od -tx2 -tx1
same od -ta
same od -td1
same od -td4
same od -to1
same od -j 4 -N 6 -c
same od -N0
same od -w8 -tx1
same od -An -N2 -i2 || true
same od -j100
same od -tq
same base64
same base64 -w0
same base64 -w 10
same base64 -w
same cksum
same md5sum
reads 'AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB'
same od -x
same od -v -tx1
same od -c -w4
same fold
same base64
reads '\0\377\200abc\r\n\\\177'
same od -c
same od -ta
same od -tx1
same od -td2
same od -tu4
same od -tx8
same od -to2
same od -An -tu1
same base64
same cksum
reads '\0\0\200\077\0\0\0\0\0\0\360\077\0\0\0\0'
same od -tf4
same od -tf8
same od -tfD -tx1
reads 'aGVsbG8gd29ybGQK\n'
same base64 -d
same base64 --decode
reads 'aGVsbG8\n'
same base64 -d
reads 'aG Vs!bG8=\n'
same base64 -d
same base64 -di
reads ''
same base64
same base64 -d
same cksum
same md5sum
same od
same tac
same paste
same nl
same fold

both sh -c 'printf "a\nb\nc\nd\n" > s1; printf "b\nd\ne\n" > s2; printf "b\na\n" > unsorted; printf "1 x\n2 y\n2 z\n3 w\n" > j1; printf "2 B\n3 C\n4 D\n" > j2;
    printf "x:1:p\ny:2:q\n" > c1; printf "p:P:x\nq:Q:y\n" > c2; printf "one\ntwo\n" > p1; printf "1\n2\n3\n" > p2; : > empty; printf "one\ntwx\n" > p3'
for options in '' -1 -2 -3 -12 -23 -13 -123 --total --nocheck-order; do
    # shellcheck disable=SC2086
    same comm $options s1 s2
done
same comm s1 unsorted
same comm unsorted s1
same comm unsorted unsorted
same comm --check-order unsorted s1
same comm s1 nowhere
same comm s1
same comm -12 --output-delimiter=, s1 s2
same comm --output-delimiter=, s1 s2
same comm s1 empty
same join j1 j2
same join -a1 j1 j2
same join -a2 j1 j2
same join -a1 -a2 j1 j2
same join -v1 j1 j2
same join -v2 j1 j2
same join -o 1.2,2.2,0 j1 j2
same join -a1 -e NONE -o 0,1.2,2.2 j1 j2
same join -a1 -a2 -e - -o auto j1 j2
same join -t: -1 3 -2 1 c1 c2
same join -t : -1 1 -2 3 c1 c2
same join -t: -j1 c1 c1
same join -o '1.1 2.2' j1 j2
same join -i j1 j2
same join --header j1 j2
same join unsorted s1
same join j1 nowhere
same join j1
same join -1 0 j1 j2
same join empty j1
same join -a2 empty j1
same paste p1 p2
same paste p2 p1
same paste -d: p1 p2 p1
same paste -d'\0' p1 p2
same paste -s p1 p2
same paste -sd+ p2
same paste p1 nowhere
same paste p1 - p2
same paste empty p2
same nl p1 p2
same nl nowhere p1
same tac p1 p2
same tac nowhere p1
same fold -w1 p1
same cmp p1 p1
same cmp p1 p3
same cmp p1 p2
same cmp -s p1 p2
same cmp -l p1 p3
same cmp -b p1 p3
same cmp p1 empty
same cmp p1 nowhere
same cmp -n 3 p1 p3
same cmp -i 6 p1 p3
same cmp p1 p3 6 6
same cmp -l p1 p2
same cmp s1 s2
same cmp
both sh -c 'head -c 3 p1 > cut; head -c 4 p1 > cut4'
same cmp p1 cut
same cmp p1 cut4
same cmp cut p1
same cmp -s nowhere p1
same cksum p1 p2
same cksum nowhere p1
same md5sum p1 p2
same md5sum nowhere
same md5sum -b p1
both sh -c 'md5sum p1 p2 > sums; md5sum p1 p3 | sed s/^./0/ > wrong; echo bad > none; md5sum p1 | sed s/p1/gone/ > missing'
same md5sum -c sums
same md5sum -c wrong
same md5sum -c none
same md5sum -c missing
same md5sum --quiet -c wrong
same md5sum --status -c wrong
same od -An -c p1 p2
same od p1 nowhere
same base64 p1
same base64 nowhere
both sh -c 'seq 1 30 > lines; seq 1 2000 > many'
same split -l 10 lines
same split -l 7 lines part.
same split -b 20 lines byte.
same split -d -l 10 lines num
same split -a 3 -l 10 lines long.
same split many thousand.
same split -b 1k many k.
same split -l 1 many one.
same split -l 1 -d many digit.
same split -a 1 -l 1 lines short.
same split -l 10 --additional-suffix=.txt lines suffixed.
same split nowhere
same split -l 0 lines
trees split
reads '1\n2\n3\n'
same split -l 2 - std.
trees 'split, again'
# The end of a file, of which only the end is read.
both sh -c 'seq 30000 > long; printf "a\nb" > cut; : > none'
for options in '-c 0' '-c 5' '-c 99999999' '-c +0' '-c +1' '-c +168890' '-c +99999999' '-n 0' '-n 1' '-n 29999' '-n 30000' '-n 99999999' '-n +29999' '-n +99999999' -1 +29999; do
    # shellcheck disable=SC2086
    same tail $options long
    # shellcheck disable=SC2086
    same tail $options cut
    # shellcheck disable=SC2086
    same tail $options none
done
