# shellcheck shell=bash
# diff: see compare.sh.

both sh -c 'printf "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n" > f1; printf "a\nB\nc\nd\ne\nf\ng\nh\ni\nJ\nk\n" > f2; printf "a\nb" > cut; printf "a\nb\n" > whole;
    : > empty; printf "x\0y\n" > bin1; printf "x\0z\n" > bin2; cp f1 same; printf "A\n b  c\n\nd\n" > blanks1; printf "a\n b c \nd\n" > blanks2;
    printf "a\r\nb\r\n" > returns; printf "int main() {\n    x;\n}\n\nint f() {\n    y;\n}\n" > c1; printf "int main() {\n    x;\n}\n\nint new() {\n    z;\n}\n\nint f() {\n    y;\n}\n" > c2;
    seq 1 100 > n1; seq 1 100 | sed "3d;50s/^/x/;52s/^/y/;\$a 101" > n2; touch -d 2001-02-03T04:05:06.7Z f1 f2 cut whole empty c1 c2 n1 n2 same blanks1 blanks2
    mkdir -p d1/sub d2/sub d1/only d1/kind; echo 1 > d1/a; echo 2 > d2/a; echo s > d1/sub/x; echo t > d2/sub/x; echo o > d1/only/y; echo 1 > d1/left; echo 2 > d2/right; echo k > d2/kind;
    echo e > d1/eq; echo e > d2/eq; touch -d 2001-02-03 d1/* d2/* d1/*/* d2/*/*'
for options in '' -u -c -q -U0 -U1 -U10 -C1 -s -i -w -b -B '-u -L old -L new' '-u --label=x' '-u -p'; do
    # shellcheck disable=SC2086
    [ "$options" = '-u -p' ] || same diff $options f1 f2
done
same diff f1 same
same diff -s f1 same
same diff -u f1 same
same diff cut whole
same diff -u cut whole
same diff -u whole cut
same diff -u empty f1
same diff -u f1 empty
same diff empty f1
same diff -c f1 empty
same diff bin1 bin2
same diff -q bin1 bin2
same diff -a bin1 bin2
same diff bin1 bin1
same diff f1 nowhere
same diff -u -N f1 nowhere
same diff -uN nowhere f1
same diff nowhere1 nowhere2
same diff f1
same diff f1 f2 f1
same diff -i blanks1 blanks2
same diff -ib blanks1 blanks2
same diff -iw blanks1 blanks2
same diff -iwB blanks1 blanks2
same diff --strip-trailing-cr returns whole
same diff returns whole
same diff -u c1 c2
same diff -u c2 c1
same diff -u n1 n2
same diff n1 n2
same diff -c n1 n2
same diff d1 d2
same diff -r d1 d2
same diff -ru d1 d2
same diff -ruN d1 d2
same diff -rN -q d1 d2
same diff -rq d1 d2
same diff -rs d1 d2
same diff -r -x 'a' -x sub d1 d2
same diff --recursive --unified d1 d2
same diff -rc d1 d2
same diff -uN d1 d2
same diff -q d1 d2
same diff f1 d1
same diff d1/a d2
same diff d1 d2/a
same diff -u d1/a d2
same diff d1 nowhere
same diff -r d1 d1
reads 'a\nb\n'
same diff - cut
same diff cut -
same diff - -
