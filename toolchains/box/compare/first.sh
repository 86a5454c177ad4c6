# shellcheck shell=bash
# basename to yes: see compare.sh.

# --- text --------------------------------------------------------------------------------------------------------------

reads 'b 2\na 10\nc 1\n\na 9\nb 2\nB 3\n -5\n'
for options in '' -n -r -nr -u -f -k2 -k2n -k2,2n -k1,1 '-k1,1 -k2,2nr' '-t1 -k2' -uk1,1 -s -b -fu '-k2n -u' -c -k1.2 \
    '-k1.1,1.1 -s' '-k1,1r -k2,2n' '-k2b' '-k2nr -k1'; do
    # shellcheck disable=SC2086 # several words
    same sort $options
done
reads 'x:3:c\ny:1:b\nz:2\n:9:\n'
same sort -t: -k2
same sort -t: -k2,2n
same sort -t: -k3
same sort -t: -k2,2nr -k1,1
same sort -t: -k3,3 -s
reads '0.5\n-1\n1e3\n10\n9.99\n-0\n+4\n00012\nx\n1.10\n1.1\n123456789012345678901\n123456789012345678900\n'
same sort -n
same sort -nu
same sort -rn
same sort -c
reads 'a\nb\nb\nc\n'
same sort -c
same sort -cu
reads 'a\na\nb\nc\nc\nc\na\n\n\nA\n'
for options in '' -c -d -u -cd -i -ci '-w1' -du; do
    # shellcheck disable=SC2086
    same uniq $options
done
reads '1 x a\n2 x a\n3 y b\n4 y c\nz'
same uniq -f1
same uniq -s2
same uniq -f1 -c
reads 'hello World 123\n\ttab  two\nlast'
same cat
same cat -n
same cat - -
same cat nowhere
same tr a-z A-Z
same tr '[:lower:]' '[:upper:]'
same tr -d '[:digit:]'
same tr -d 'a-z\n'
same tr -s ' l'
same tr -s a-z '*'
same tr -cd 'a-z\n'
same tr -c 'a-z\n' '[x*]'
same tr -cs '[:alnum:]' '\n'
same tr 'lo' '[y*1]z'
same tr abc ''
same tr '\n\t' '  '
same tr '\141-\143' X-Z
same tr -ds a-e ' l'
same tr z-a x
same tr
same tr -t lo x
for options in -c1 -c1-3 -c3- -c-2 -b2,4-5 '-d  -f1' '-d  -f2-' '-d  -f1,3' '-d  -s -f2' '-d: -f1' -f1 -f2 -c0 -f '-c1 -f1'; do
    # A delimiter of a blank.
    IFS=' ' read -ra words <<< "${options//-d  /-dBLANK }"
    same cut "${words[@]/-dBLANK/-d }"
done
reads '1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12'
for options in '' -n3 -n0 -3 -c5 -n-3 -c-4 -n100 -n-100 '-n 2 -q' -v -nx; do
    # shellcheck disable=SC2086
    same head $options
done
for options in '' -n3 -n0 -3 -c5 -n+3 -c+4 -n100 -n+100 -n+0 -n+1 '-c 3 -q' -v -nx; do
    # shellcheck disable=SC2086
    same tail $options
done
both sh -c 'printf "1\n2\n3\n" > n; printf "a b\nc" > l; : > empty; printf "a\0b\nabc\n" > bin'
same head -n1 n l empty
same tail -n1 n l empty
same tail -n1 -q n l nowhere
same head nowhere
same wc
same wc n
same wc n l empty
same wc -l n
same wc -l n l
same wc -c n
same wc -w
same wc -lw n nowhere
same wc -c -l - n
same tee a b
same tee -a a
same tee /nowhere/x
trees tee

# What is read and written at once.
for command in 'cat a.txt >> a.txt' 'cat *.txt > all.txt' 'cat a.txt > a.txt' 'cat < a.txt >> a.txt' 'cat z.txt a.txt > z.txt' \
    '{ echo x; cat a.txt; } > a.txt' '{ cat; cat a.txt; } < a.txt >> all.txt' 'cat -n a.txt >> a.txt' \
    'grep foo *.txt > z.txt' 'grep -r foo . > found' 'grep -c foo *.txt > z.txt' 'grep -l foo *.txt >> a.txt' \
    'grep -m1 foo *.txt >> a.txt' 'grep foo < a.txt >> a.txt' 'grep -s foo a.txt >> a.txt' \
    'grep -q foo a.txt >> a.txt' 'grep -L foo *.txt >> a.txt'; do
    both sh -c 'mkdir -p loops && cd loops && rm -f * && printf "foo 1\nfoo 2\n" > a.txt && : > all.txt && : > z.txt'
    same sh -c "cd loops && $command"
    trees "$command"
done

# --- grep --------------------------------------------------------------------------------------------------------------

reads 'foo bar\nFoo\nfoobar\nbar.baz\n\na+b\n(x)\naaa\nfoo_bar foo\n[z]\n'
for options in 'foo' '-i foo' '-v foo' '-n foo' '-c foo' '-c nix' '-l foo' '-q foo' '-q nix' '-o fo*' '-w foo' '-x foo' \
    '-x foobar' '-wo foo' '-E (foo|bar)' '-E a+' '-F a+' '-F .' '-e foo -e a' '-vc foo' '-on bar' '-E ^$' '-n ^' 'o$' \
    '-E o{2}' 'o\{2\}' '\(a\)\1' '-F -x aaa' '-io FOO' '-xF foo' '-m1 foo' '-L foo' '-h foo' '-H foo' '-E -w foo|x' \
    '-E a*' '-o a*' '-vo foo' '[[:upper:]]' '\.' '-E (' '[' '-F [' '-s foo nowhere' 'foo nowhere' '-E ba[rz]' '-c ""' \
    '-iw FOO' '-F -w foo' '-F -i FOO' '-oE [a-z]+' '-E x|' '-L nix' '-lv foo'; do
    # shellcheck disable=SC2086
    same grep $options
done
same grep ''
same grep -e ''
same grep -v ''
same grep 'foo
bar'
same grep b bin
same grep -c b bin
same grep -a abc bin
same grep a n l bin
same grep -l a n l
same grep -c 1 n l
same grep -f l n
# Patterns whose matches have a text of their own in common, and patterns that only look like it.
both sh -c 'printf "foo bar\nfobar\nfooo.c\nxa.cy\na.b*c\nab]c\n{x}\na\\\\b\nAxyz\nno end" > kinds'
for options in 'foo*' 'fooo*b' '-E foo+b' '-E fo?o?b' '-E fo{1,2} bar' 'fo\{1,2\} bar' 'fo\+ ' 'fo\?o\? ' 'a\.c' 'a\.*c' 'a[.]c' \
    'a.c' '-E (foo|no)' '-E foo|end' 'foo\|end' '\(foo\)* bar' '[]x]y' 'b]c' 'b*c' 'b\*c' '*c' '^*c' '^no' 'end$' 'o^' '{x' \
    '-E \{x' '-E b\*' 'a\\b' 'b\\' '\<bar' 'bar\>' '\bbar' 'b\w\w' '-E o{3}' '-E \.c$' '-vc foo*' '-v a.c' '-o o*b' '-n end' \
    '-c a\.' '-L no' '-l no' '-m2 o' '-w bar' '-x fobar' '-e zz -e end' '-i NO' '-F -e b*c -e zz' '[[:upper:]]xyz' '[^]]xyz' \
    '-E a*b?zz' '-E ^(foo)+ ' 'x\{0\}yz'; do
    # shellcheck disable=SC2086
    same grep $options kinds
done
both sh -c 'mkdir -p t/u; echo needle > t/a; echo needle > t/u/b; echo hay > t/u/c'
same grep needle t
same grep -rl hay t
same grep -r hay
same grep -rc hay t/u/c
same grep
same grep -9Y x

# --- arguments, numbers, times -----------------------------------------------------------------------------------------

for path in a/b /a/b/ / // a '' a/ a.c ./ ../x /x; do
    same basename "$path"
    same dirname "$path"
done
same basename a/b.c .c
same basename .c .c
same basename -s .c a.c b/d.c
same basename -a a/b c/d
same basename
same basename a b c
same dirname a/b c/d/e
same echo a b
same echo -n a
same echo -e 'a\tb\n\0101\x41\\c\c' d
same echo -E 'a\tb'
same echo -ne 'x\n'
same echo -- -x
same echo
same printf '%s\n' a b c
same printf '%d %5d|%-5d|%05d|%+d\n' 1 2 3 4 5
same printf '%x %X %o %u\n' 255 255 8 7
same printf '%c%c\n' hello world
same printf '%b|%s\n' 'a\tb\0101' 'a\tb'
same printf '%s %s\n' a b c
same printf 'no newline'
same printf '%%|%5s|%-5s|%.2s\n' ab ab abc
same printf '%*d|%-*d|%.*s\n' 5 1 5 2 1 xyz
same printf '\101\x41\t\\\n'
same printf '%d\n' 0x10 010 "'a" abc 3x
same printf '%.3f %e %g\n' 3.14159 1000 0.0001
same printf 'a\cb' x
same printf '%s'
same printf '%d\n'
same printf
for numbers in 5 '2 5' '5 1' '5 -2 1' '1 2 10' '0.5 0.1 1' '1 0.5 3' '-3 3' '1 0 2' '8 10' 'x' '' '1 2 3 4' '-1 -1 -3' '3 1 1' \
    '1.0 2' '0 0.1 0.3'; do
    # shellcheck disable=SC2086
    same seq $numbers
    # shellcheck disable=SC2086
    same seq -w $numbers
done
same seq -s, 3
same seq -s ', ' -w 8 11
same date -u -d @0
same date -u -d @1234567890 '+%Y-%m-%d %H:%M:%S %j %a %b %s %N %% %n%t%Z'
same date -d '2024-02-29 12:34:56' '+%F %T %s'
same date -d 2024-02-29 +%s
same date -u -d @0 +
same date -d rubbish
same date -d '2024-02-29 12:34:56.789 +0130' '+%F %T.%N %s'
same date -d '2024-02-29T12:34:56-02:00' +%s
same date -d '2024-02-29 12:34 GMT' +%s
same date -d '2024-02-29 12:34 +1:2:3' +%s
same date -d @1000000000.25 +%s.%N
same date -d @-1.5 +%s.%N
same date -d '3 fortnights of rubbish'
same sh -c 'test $(($(date -d "2 hours ago" +%s) - $(date -d now +%s))) -ge -7201 && date -d "+3 days" +%F >/dev/null && echo ok'
same sh -c 'test $(($(date -d tomorrow +%s) - $(date -d yesterday +%s))) -ge 172799 && echo ok'
same date x
same date -u -R -d @86400
same true x
same false x
same sleep 0
same sleep x
same sleep
same env -i A=1 B=2
same env -i A=1 env
same env -i A=1 -u A
same env -u HOME -i X=1 env
same env nowhere-at-all
same env -i false
same env -i echo hello world

# --- files -------------------------------------------------------------------------------------------------------------

same mkdir d d/e d
same mkdir -p p/q/r p/q
same mkdir p/x/y
same mkdir -p n/x
same mkdir
same rmdir p
same rmdir -p p/q/r
same rmdir nowhere
same touch f1 f2
same touch -c f3
same touch nowhere/f
same touch -d @1000000000 f1
same touch -t 202001021530.45 f2
same touch -r f1 f3
same find f1 f2 f3 -newer f1
same ls
same ls -a
same ls -A
same ls -1 -r
same ls -F
same ls -p
same ls d t n
same ls -d d t n
same ls -R t
same ls nowhere
same ls n nowhere t
same ls -t f1 f2 f3
same ls -S n l empty
trees touch
same cp n d
same cp n l d/e
same cp n d/n2
same cp n nowhere/x
same cp t d
same cp -r t d
same cp -r t d/t2
same cp -r t d/t2
same cp -r t t
same cp -r t t/u/v
both rm -rf t/t t/u/v # how far it comes depends on the order of the directory
same cp n n
same cp n l empty
same cp nowhere d
same cp d n
same cp -f n d/n
same cp -p f1 f4
same cp
same cp n
trees cp
same ln n hard
same ln -s n soft
same ln -s n soft
same ln -sf l soft
same ln -s t dirlink
same ln -sfn d dirlink
same ln nowhere x
same ln -s a b nowhere
same ln -s zz dangling
same ln -s . here
same cp -r ./dangling dangling
same cp -r here/dangling dangling
same rm dangling here
same cat soft hard
same cp soft copy1
same cp -r soft copy2
same cp -a dirlink copy3
same ls -F
same ls -d dirlink
same ls dirlink
trees ln
same mv copy1 moved
same mv nowhere x
same mv moved d
same mv d/t2 d/t3
same mv n n
same mv d/t3 n
same mv n l d
same mv -f d/n d/l .
same mv -n n l
same mv d d/inside
same mv empty l nowhere
trees mv
same find
same find . -type f -name '*'
same find d t -type d
same find . -maxdepth 1 -type f
same find . -mindepth 2 -type d
same find . -name 'f?' -o -name n
same find . '(' -name n -o -name l ')' -print
same find . -type f ! -name 'f*'
same find . -not -type f -a -name '[dt]*'
same find . -empty
same find . -type f -size 0
same find . -type f -size -1
same find . -type f -size +5c
same find . -size 4c -print0
same find . -path './t/*'
same find t -depth
same find . -name u -prune -o -type f -print
same find . -newer f1 -name 'f*'
same find t -exec echo found {} ';'
same find t -type f -exec echo all {} +
same find t -exec false ';' -print
same find t -exec true ';' -print
same find t -type f -exec grep -l needle {} +
same find . -iname 'N'
same find nowhere
same find . -bogus
same find . -name
same find . '(' -name n
same find . -exec echo
same find t -name b -delete
same find t -type l
same find . -true -quit
trees find
reads 'a b\nc  d\n "e f" g\\ h\n'
same xargs
same xargs -n1
same xargs -n2 echo x
same xargs -I% echo '<%>' %
same xargs -L1 echo
same xargs false
same xargs nowhere-at-all
same xargs -n1 sh-not-there
reads 'a b\nd "c\n'
same xargs echo
same xargs -n1 echo
reads 'x\n"c'
same xargs -n1 echo
reads '"c\n'
same xargs echo
reads 'a b\0c\n\0'
same xargs -0 echo
same xargs -0 -n1 echo
same xargs -0 -I{} echo x{}y
reads ''
same xargs echo none
same xargs -r echo none
reads "'open\n"
same xargs
same rm f1
same rm f1
same rm -f f1
same rm d
same rm -r d
same rm -rf nowhere t
same rm .
same rm -r ./
same rm
same rm -f
both mkdir -p shown/within
both ln -s shown led
same rm -r led/
both mkdir -p shown/within
same rm -rf led/ # what it leads to is emptied, and remains
same rm -rf led/
both mkdir -p round/a/b
both ln -s ../round round/a/through
both ln -s . round/here
same rm -rf round/here/a/through/here/
both touch plain
both ln -s plain/ slashed
same mv slashed plain
both touch whole
both ln -s whole leads
both ln -s leads leads2
same cp -r leads whole
same cp -r leads2 whole
same cp -r leads leads2
same cp -r slashed leads
both ln -s d to_d
both ln -s nowhere astray
both ln to_d twin_to_d
same cp -rT astray to_d
same cp -rT twin_to_d to_d
same cp -r to_d to_d/..
both mkdir -p ways/a
both ln -s a ways/b
both ln ways/b ways/a/b
same cp -r ways/a/b ways/b/..
same cp -r ways/b ways/b
both mkdir -p ways/c
both ln -s ../d ways/c/b
same cp -r ways/c/b ways/b/..
both mkdir -p from/in
both ln -s ../onto from/from
same cp -r from onto
same cp -r from onto
same cp -rT from to_d
both touch one two three
same ln -f d one
same ln -f one two
same ln -f one two
same ln -sf three three
same ln -sf one three
same ln -sfT three to_d
both sh -c 'ln -s nothing e; mkdir c; ln -s a c/c; echo old > old; ln -s old g; ln old older'
same ln -sf e e
same ln -sf c/c c
same ln -sf g g
same ln -sfn e e
same ln -sf old old
same ln -sf older old
same ln -f old older
same ln -f g g
both sh -c 'echo text > linked; ln -s linked led_to; ln -s nothing unled; echo file > filed; touch -d 2001-01-01 linked'
same cp -P led_to led_copy
same cp -P unled unled_copy
same cp -P led_to filed
same cp -P linked linked_copy
trees 'cp -P'
same find filed linked f1 -newer led_to
same ls -L led_to linked
same ls -LF led_to
same ls -HF led_to
same ls -F led_to
same sh -c 'ln -s timed late; ln -s nowhere lost; touch timed; touch -h -d 2003-01-02T03:04:05Z late lost; stat -c "%Y %N" late lost; [ ! -e nowhere ]'
same sh -c 'touch -h -m -r late timed; touch --reference=timed --time=mtime ref; touch --date=@5 --no-create ref none; stat -c %Y timed ref; ls none'
same touch -h none
same touch -ch none
same touch --time=birth timed
same sh -c 'touch --no-dereference --time=atime -d @77 late; touch -f timed; stat -c "%X %Y" late; rm late lost ref'
both touch -d '2001-02-03T04:05:06.789Z' timed
both touch -d '2001-02-03 04:05:06,7' timed2
same find timed -newer timed2
same date -r timed +%s
same rm dirlink soft
same rm -d n
trees rm

reads 'foo bar\nfoobar\nabab\n\na.b*c\n'
for pattern in '\<bar' 'foo\b' '\(ab\)\1' 'foo\|abab' 'b\+' '^$' 'a.b\*' '[[:space:]]' '\w\{6\}'; do
    same grep "$pattern"
    same grep -o "$pattern"
    same grep -c -w "$pattern"
done
for pattern in '(a|b)\1' '(ab)\1' 'foo|abab' 'b+|o{2}' '^(foo)?bar' 'a{1' '\.b\*' '(' ')'; do
    same grep -E "$pattern"
    same grep -oE "$pattern"
done
