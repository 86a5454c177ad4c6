# shellcheck shell=bash
# sed: see compare.sh.

s() { # ARGUMENT...: of sed
    same sed "$@"
}

reads 'hello world\nfoo bar\n\nlast line\n'
s p
s -n p
s s/o/0/
s s/o/0/g
s s/o/0/2
s s/o/0/2g
s -n s/o/0/p
s 's/\(hello\) \(world\)/\2 \1/'
s -E 's/(hello) (world)/\2 \1/'
s -r 's/([a-z]+) ([a-z]+)/[\2] [\1]/'
s 's,o,/,g'
s 's|a\|b|X|'
s 's/x*/-/g'
s 's/o*/x/g'
s 's/[aeiou]/<&>/g'
s 's/[aeiou]/\&/g'
s 's/[^a-z ]//g;s/$/!/;s/^/>/'
s 's/l\{2\}/LL/'
s 's/l\+/L/;s/b\?a/_/'
s -E 's/l{2,}|o/L/g'
s 's/\bw/W/;s/o\b/O/g;s/\<f/F/;s/r\>/R/'
s 's/\w\+/(&)/g'
s 's/\s/_/g'
s 's/[[:upper:][:lower:]]/c/g'
s 's/.*/\U&/'
s 's/\(.\)\(.*\)/\u\1\2/'
s -E 's/(\w)(\w*)/\U\1\L\2/g'
s 's/\(hello\)/\u\1 \U\1 x\E y/'
s 'y/abc/xyz/'
s 'y/o\n/0-/'
s '2d'
s '$d'
s '2,3d'
s '2,$d'
s '/foo/d'
s '/foo/!d'
s '/^$/d'
s '2q'
s '2q5'
s '2Q3'
s -n '$='
s =
s -n '/foo/,/last/p'
s -n '/foo/,+1p'
s -n '2~2p'
s -n '0~3p'
s -n '2,~4p'
s -n '0,/hello/p'
s -n '1,/hello/p'
s '0,/o/s/o/0/'
s -n '2{p;p}'
s -n '2{
p
p
}'
s '2!{s/^/x/;s/$/y/}'
s 'N;s/\n/ /'
s '$!N;s/\n/ /'
s ':a;N;$!ba;s/\n/,/g'
s ':a;s/o/0/;ta'
s -e ':again' -e 's/^\(.*\)o/\10/' -e 't again'
s 'h;G'
s -n 'H;${x;s/\n/,/g;p}'
s '1!G;h;$!d'
s x
s n\;d
s '$!{h;d};x;G'
s P\;D
s '$!N;P;D'
s '$!N;/^\(.*\)\n\1$/!P;D'
s 'a\
appended\
two lines'
s '1i\
  inserted'
s '2c\
changed'
s '2,3c\
range changed'
s '2,3!c changed'
s 'a one line'
s '1i\  keeps blanks'
s '$a\end'
s 'a x\ty'
s -e 'a\' -e 'text'
s '2r /dev/null'
s l
s -n 'l 20'
s -n '/hello/{s//bye/;p}'
s 's//x/'
s '/o/s//0/g'
s -n '\,foo,p'
s -n '\|foo|p;/LAST/Ip'
s 's/HELLO/bye/I'
s 's/o/0/i;s/W/w/gi'
s 's/a/b/;;s/c/d/; ; p'
s '# a comment
p # another'
s '#n
p'
s --expression=p --quiet
s -z 's/\n/,/g'
s 's/l/\
/'
s 's/ /\n/'
s 's/ /\t/'
s 's/\x6c/L/g;s/\o157/O/'
s 's/h\(.\)llo/\1\1/'
s 's/\(l\)\1/<\1>/'
s -E 's/(.)\1/<\1>/g'
s -E 's/^(.*)(o)(.*)$/\3\2\1/'
s -E 's/a|ab|hello w/X/'
s -E 's/(a|ab)(c|bcd)*/[\1\2]/'
s -E 's/()/x/;s/(o|l)+/<&>/g'
s -E 's/a**/x/;s/(^|[^a-z])o/_/'
s 's/*/x/;s/\(*\)/y/;s/^*o/z/'
s 's/[/]/x/;s,[^,],y,;s/[[:alpha:]/]/z/'
s 's/[]]/x/;s/[^]]/y/;s/[a-]/z/'
s 's/[\n]/x/;s/[.]/y/;s/\./z/'
s 's/\//x/;s/a\/b/c/'
s "s/'/\"/g"
s F
s z
s 's/\(^\|[^o]\)o/\1_/g'
s 's/$/\r/'
s -n '/hello/=;/foo/w out.txt'
s -n 's/foo/FOO/w /dev/stdout'
s 'w copy.txt'
s --debug-nothing p
s
s 's/a'
s 's/a/b'
s 's/\(a/b/'
s 's/a\)/b/'
s 's/a/\1/'
s 'k'
s '{p'
s 'p}'
s '3,p'
s 'y/abc/de/'
s 's/a\{2/b/'
s 's/[a/b/'
s p nowhere
s -n '$p' nowhere
s s/o/0/0
s 's/o/0/gg'
s 'a'
s '2,1p'
s -n '2,1p;3,2p'
s -n '/foo/,1p'
s -n '/o/,/o/p'
s -n '2,/foo/p'
s -n '$!p'
s '1~0p'
s '2,4{/foo/!d}'
s -n '/hello/{n;p}'
s -n '/hello/{N;P;l}'
s '$N;s/l/L/g'
s -s -n '$p'
s --posix 's/a/b/'
s -u 's/a/b/'
s -n 's/o/0/gpw both.txt'
s 's/b*/x/2'
s 's/\(b*\)\(a*\)/[\1\2]/g'
s 's/^/\t/;s/[ \t]*$//'
s ':a
/\\$/N
s/\\\n//
ta'
s 'T;s/^/x/'
s 's/o/0/;T;s/^/x/'
s 's/o/0/;t end;s/$/ none/;:end'
reads 'no newline'
s p
s -n p
s 'a x'
s 'i x'
s '$!d'
s 's/$/!/'
s G
s =
s r
s 'N;p'
reads ''
s p
s '$p'
s 'a x'
reads 'a\0b\nc\377d\n'
s 's/b/B/;s/\xff/F/'
s 's/[^a-z]/?/g'
s l
s 's/./x/g'
reads '1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n'
for script in 2,4d '2,4!d' 5q '0~4d' '3,5{=;p}' '$!N;$!D' '4,2p' '2,+3s/^/x/' '/3/,/5/d' '/1/,/1/d' '10,$s/^/-/' '3~4p' \
    '2,~5s/^/>/' '/2/,3s/^/-/' '5,/9/{/7/d}' '2{h;d};4{G}' '$!{$!N};s/\n/+/' 'n;n;s/./x/' '1d;n;d' '2,4c\x' '$!d' \
    '/5/{x;p;x}' '3{N;N;s/\n/,/g}' '2,4{2d;4!s/^/in /}' 'N;N;D' '/4/{s/4/four/;b};s/^/-/' '3,4{;p;};5!d' '/[24]/!s/^/#/' \
    '/1/{/0/!d}' '2q;d' '1,3{1!G;h;$!d}' '0,/1/d' '0,/2/d' '5!{p;d}' '2,4{b x};d;:x' '/3/,+2{s/^/a/;s/$/z/}' '2,4!{d}'; do
    s "$script"
    s -n "$script;p"
done
both sh -c 'printf "one\ntwo\nthree" > f1; printf "four\nfive\n" > f2; printf "s/e/E/\n$!d" > script; mkdir dir;
    printf "inserted\n" > ins; cp f1 f3; cp f2 f4; printf "x\n" > "na me"'
s p f1 f2
s -n '$p' f1 f2
s -s -n '$p' f1 f2
s -n '2p' f1 f2
s -s -n '2p;F' f1 f2
s -f script f1
s -n -f script f1
s '2r ins' f1
s '$r ins' f1
s '/two/{r ins
d}' f1
s 'R ins' f2 f1
s '2w saved' f1
s -n '/o/w with
/o/!w without' f1 f2
s -i s/o/0/ f1
s -i.bak s/e/3/g f2
s -i -e 1d -e '$a end' f1
s -ibak_ '1i top' f2
s -n -i p f2
s -i 2q f2
s -i '$s/$/!/' f1 f2
s --in-place=.orig s/t/T/ f1
s -i p nowhere
s -i p dir
s p dir
s -i 's/x/y/' 'na me'
s -Ei 's/(.)/\1\1/' f3 f4
s '1~2d' - f1
s -n '1F;$F' f1 f2
trees 'sed -i'

# As scripts of configure have it.
reads 'srcdir=@srcdir@\nCC = @CC@\n  VPATH = @srcdir@:x\n#define FOO 1\n#undef BAR\n/* #undef BAZ */\nint x; /* @CFLAGS@ */\nX-y/z.c\n'
s 's,@srcdir@,.,;t t
s/x/X/
:t
s,@CC@,gcc -std=gnu11,;t'
s 's,x,y,;t
d'
s '/^[ 	]*VPATH[ 	]*=[ 	]*/{
h
s///
s/^/:/
s/[ 	]*$/:/
s/:\$(srcdir):/:/g
s/^:*//
s/:*$//
x
s/\(=[ 	]*\).*/\1/
G
s/\n//
s/^[^=]*=[ 	]*$//
}'
s -n 's/^[	 ]*#[	 ]*define[	 ][	 ]*\([^	 (]*\).*/\1/p'
s -e 's/[^-a-zA-Z0-9_]/_/g' -e 'y/abcdefghijklmnopqrstuvwxyz/ABCDEFGHIJKLMNOPQRSTUVWXYZ/'
s "s/'/'\\\\''/g; 1s/^/'/; \$s/\$/'/"
s 's%[^/]*$%%;s%/$%%'
s '/^X\(\/\/\)[^/].*/{
s//\1/
q
}
/^X\(\/\).*/{
s//\1/
q
}
s/.*/./; q'
s 's/\\/\\\\/g;s/\$/\\$/g;s/`/\\`/g'
s -n '/^#/{s/^#\([a-z]*\) *\([A-Z]*\).*/\2=\1/;h;d};${g;p}'
s ':L;s/\([^ ]*\)  *\([^ ]*\)/\1_\2/;tL'
s '/^#define/!{/^#undef/!d}'
s 's/@\([A-Za-z]*\)@/${\1}/g'
s "\$!s/\$/ \\\\/"
s '/[@]/{
s/@/%/g
w subst
}'
s -e '1{' -e 's/s/S/' -e '}'
s -n -e '/VPATH/{' -e p -e '}'
trees sed
