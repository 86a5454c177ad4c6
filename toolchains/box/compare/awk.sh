# shellcheck shell=bash disable=SC2016 # the programs are awk's
# awk: see compare.sh.

a() { # ARGUMENT...: of awk
    same awk "$@"
}

reads 'alice 30 NYC\nbob 25 LA\n\ncarol  35   SF \ndave,1:2;3\t4\n10 9 8\n-1.5 +2 0x10\n1e3 .5 007\n'
a '{print}'
a '{print $1}'
a '{print $NF, NF, NR}'
a '{print $1,$2 > "/dev/stdout"}'
a '/a/'
a '!/a/'
a '/bob/,/dave/'
a 'NR==2,NR==4{print NR": "$0}'
a 'NR==2,NR==2'
a '$2>26'
a '$2 > 26 {print $1}'
a 'NF'
a 'END{print NR, $0, NF}'
a 'BEGIN{print "x"}'
a 'BEGIN{x=1; x+=2; x*=3; x-=1; x/=4; x%=3; x^=2; print x}'
a 'BEGIN{print 1+2*3-4/2%3, 2^3^2, -2^2, 2**3, !0, !1, !"", !"a", 1-1-1}'
a 'BEGIN{print 1==1.0, "a"<"b", "10"<"9", 10<9, 1<2, "a" "b"=="ab"}'
a '{print ($1<$2), ($1==10), $1+0, $2+0, $3+0}'
a 'BEGIN{print 1e6, 1e5*10, 100000000000, 0.1, 1/3, 1e300*1e10, 123456789.123, 1e-5, 3.0, -0}'
a 'BEGIN{OFMT="%.2f"; print 3.14159, 3; x = 3.14159 ""; print x; CONVFMT="%.3f"; x = 3.14159 ""; print x}'
a 'BEGIN{print substr("hello",2,3) substr("hello",0) substr("hello",-1,3) substr("hello",2) substr("hello",4,100) "|" substr("hello",10) "|"}'
a 'BEGIN{print substr("hello",1.5,2.3), substr("hello", 0, 2), substr("hello", 2, -1) "|"}'
a 'BEGIN{print index("hello","l"), index("hello","z"), length("hello"), length(), length}'
a '{print length, length($1), length()}'
a 'BEGIN{print match("foobar",/o+/), RSTART, RLENGTH; print match("x",/y/), RSTART, RLENGTH}'
a 'BEGIN{n=split("a:b:c",x,":"); print n, x[1], x[3]; n=split("",x); print n, length(x); print split(" a b ",y), y[1]}'
a 'BEGIN{n=split("a1b22c",x,/[0-9]+/); print n,x[1],x[2],x[3]; n=split("abc",x,""); print n,x[2]; print split("a.b.c",x,".")}'
a 'BEGIN{s="hello"; n=gsub(/l/,"L",s); print n,s; sub(/L/,"[&]",s); print s; gsub(/o/,"\\&",s); print s}'
a 'BEGIN{s="abc"; gsub(/x*/,"-",s); print s; s="abc"; gsub(//,"-",s); print s; s="aaa"; print gsub(/^a/,"b",s), s; s="a b  c"; gsub(/ */,"_",s); print s}'
a '{gsub(/[0-9]/,"#"); print; sub(/^/,">"); print; print $1}'
a '{$2=""; print; $5="e"; print; print NF}'
a '{NF=2; print; $0="x y z"; print $2, NF}'
a '{$3="c"; print $0; print NF}' OFS=-
a 'BEGIN{FS=","}{print $1; print $2}'
a -F, '{print $1 "|" $2}'
a -F: '{print $2}'
a -F'[,:;]' '{print $2, NF}'
a -F'\t' '{print $2}'
a -F '|' '{print NF}'
a -F. '{print NF}'
a 'BEGIN{FS="\t"}{print NF}'
a -v x=5 'BEGIN{print x+1}'
a -v 'x=a\tb' 'BEGIN{print x}'
a '{print v, $1}' v=1 - v=2
a 'BEGIN{OFS="-"; ORS="|\n"}{print $1,$2; $1=$1; print}'
a 'BEGIN{RS=""}{print NR": "$0; print NF}'
a 'BEGIN{RS="";FS="\n"}{print $1 "+" $2}'
a 'BEGIN{RS=" "}{print NR": "$0}'
a 'BEGIN{RS="[0-9]+"}{print NR": "$0}'
a 'BEGIN{RS="a|ab"}{print NR": "$0 "(" RT ")"}'
a 'BEGIN{RS="x"}END{print NR; print $0}'
a '{c[$1]++; n[NR]=$0} END{for(i=NR;i>0;i--) print n[i]; print length(c)}'
a '{c[length($1)]++} END{for(k=0;k<10;k++) if (k in c) print k, c[k]; if (!(99 in c)) print "no"; print length(c)}'
a 'BEGIN{a["x"]=1; a["y"]=2; delete a["x"]; for (k in a) print k, a[k]; delete a; print length(a)}'
a 'BEGIN{a[1,2]=3; for (k in a) {split(k,p,SUBSEP); print p[1], p[2]}; if ((1,2) in a) print "in"; if (!((2,1) in a)) print "out"}'
a 'BEGIN{a["01"]=1; print (1 in a), ("01" in a); a[01]=2; print (1 in a); x=0.1; a[x]=1; print (0.1 in a), ("0.1" in a)}'
a 'function f(n){return n<2?n:f(n-1)+f(n-2)} BEGIN{print f(15)}'
a 'function fill(arr,n){for(i=1;i<=n;i++)arr[i]=i*i} BEGIN{fill(q,4); print q[4], length(q)}'
a 'function g(a){a["x"]=1} function f(b){g(b)} BEGIN{f(z); print z["x"]}'
a 'function f(x,  l){l[1]=x; return l[1]} BEGIN{print f(3), f(4); x=1; f(x); print x}'
a 'function f(s){s="changed"} BEGIN{t="kept"; f(t); print t}'
a 'function r(a,i){if(i>3)return; a[i]=i; r(a,i+1)} BEGIN{r(v,1); print length(v)}'
a 'function noreturn(){} BEGIN{x=noreturn(); print "[" x "]", x+0}'
a 'BEGIN{while(i<5){i++; if(i==2)continue; if(i==4)break; print i}; do {j++} while(j<3); print j; for(;;){if(++k>3)break}; print k}'
a 'BEGIN{for(i=0;i<3;i++)for(j=0;j<3;j++)if(j==1)break;else print i,j}'
a 'BEGIN{if(1)print "a";else print "b"; if(0)print "c"
else print "d"}'
a 'BEGIN{if(1){print "a"}else if(2){print "b"}else{print "c"}}'
a 'BEGIN { x = 1 ; ; ; print x }

# comment
END { print "end" } # another'
a 'NR==2{next}{print}END{exit 3}'
a '{print; exit}END{print "end"}'
a 'BEGIN{exit 4}END{print "end"}'
a 'BEGIN{exit}'
a 'function die(m){print m; exit 5} {die("first")} END{print "end"}'
a 'BEGIN{printf "%d %5d|%-5d|%05d %+d %x %X %o %c%c %s|%10s|%-10s|%.2s %%\n", 3.9, 42, 42, 42, 42, 255, 255, 8, 65, "hello", "s", "right", "left", "cut"}'
a 'BEGIN{printf "%f %.2f %e %g %G %10.3f|%-10.2e|\n", 3.14159, 2.5, 12345.678, 0.0001, 1e10, 3.14159, 31415}'
a 'BEGIN{printf "%*d|%-*d|%.*f\n", 5, 42, 5, 42, 2, 3.14159; printf("%s %s\n", "a", "b"); printf "%i %5.3d|%s\n", 7, 7, 1e6}'
a 'BEGIN{printf "%c%c%c", "", 256+65, "xyz"; printf "\n%5c|%-5c|\n", "a", "b"; printf "no newline"}'
a 'BEGIN{printf "%d %d %s %d\n", "12abc", "", 2147483648*4, -2147483649; printf "%x\n", 2^40; printf "%d\n", 1e18}'
a 'BEGIN{x=sprintf("%03d:%s",7,"y"); print x; print sprintf("%s")+0 > "/dev/null"}'
a 'BEGIN{print toupper("aBc1"), tolower("AbC1"), int(3.9), int(-3.9), int("4x"), sqrt(16), exp(0), log(1), sin(0), cos(0), atan2(0,-1)}'
a 'BEGIN{srand(1); x=rand(); srand(1); y=rand(); print (x==y), (x>=0&&x<1); print srand(5), srand()}'
a 'BEGIN{while(("echo a; echo b" | getline line)>0) print "got", line; close("echo a; echo b"); "echo c" | getline; print $0}'
a 'BEGIN{print "b\na" | "sort"; close("sort"); print "after"}'
a 'BEGIN{print "x" | "cat 1>&2"; print "y" > "/dev/stderr"}'
a 'BEGIN{r=system("exit 3"); print r; system("echo hi"); print system("true")}'
a 'BEGIN{"pwd" | getline d; print (length(d) > 0)}'
both sh -c 'printf "l1\nl2\nl3\n" > f1; printf "m1\nm2" > f2; printf "BEGIN{print \"from file\"}\n{print FILENAME\":\"FNR\":\"NR\":\"\$0}\n" > p.awk;
    printf "function twice(x) { return 2 * x }\n" > lib.awk; printf "a b\n#c\nd e f\n" > cfg'
a 'BEGIN{while((getline x < "f1")>0) n++; print n; close("f1"); getline x < "f1"; print x; print (getline y < "nowhere")}'
a '{getline; print}' f1
a '{getline x; print x, $0, NR}' f1
a 'NR==1{while((getline line < "f2")>0) print "in", line}{print}' f1
a '{print FILENAME, FNR, NR, $0}' f1 f2
a 'FNR==1{print FILENAME}FNR==2{nextfile}{print}' f1 f2
a 'NR==FNR{a[$0]=1;next}{print ($0 in a)}' f1 f1
a -f p.awk f1 f2
a -f lib.awk -f p.awk f2
a -f lib.awk -e 'BEGIN{print twice(1)}'
a '{print > "out1"; print $0 >> "out2"} END{close("out1"); while((getline l < "out1")>0) print "back", l}' f1
a '{print $1 > ($1 ".txt")}' f1
a '{print > "split" NR}' f1
a '{print}' nowhere
a '{print}' nowhere f1
a '{print}' x=1 f1
a 'END{print ARGC, ARGV[0], ARGV[1], ARGV[2]}' f1 x=1
a 'BEGIN{ARGV[1]="f2"; ARGC=2}{print}' f1
a 'BEGIN{ARGV[1]=""}{print}' f1 f2
trees awk
a 'BEGIN{print ENVIRON["NO_SUCH"] "|"}'
a 'BEGIN { print (length(ENVIRON) > 0) }'
a '
/^[a-z]/ {
    name = $1
    if (name ~ /^[ab]/ &&
        name !~ /z/ ||
        0) {
        print name,
              "ok"
    }
}'
a '$1 ~ "^a"; $1 ~ "b$"'
a 'BEGIN{r="^a.c$"; print ("abc" ~ r), ("abcd" ~ r), "a+b" ~ /a\+b/, "a.b" ~ "a\\.b", "axb" ~ "a\\.b"}'
a 'BEGIN{print "a/b" ~ /a\/b/, "a/b" ~ "a/b", "[" ~ /[[]/, "]" ~ /[]]/, "/" ~ /[/]/, "\\" ~ /\\/}'
a 'BEGIN{print "ab" ~ /a{1}b/, "aab" ~ /^a{2}b/, "a" ~ /^(a|b)?$/, "x1" ~ /[[:alpha:]][[:digit:]]/, "é" ~ /^..$/}'
a 'BEGIN{s="foo.bar"; sub("\\.", "-", s); print s; s="a\\b"; gsub(/\\/, "/", s); print s; s = "x"; sub(/x/, "a\\\\&b", s); print s}'
a 'BEGIN{s="path/to"; gsub("/", "\\/", s); print s; s="it'\''s"; gsub(/'\''/, "&&", s); print s}'
a 'BEGIN{print 1 " " 2, 1" "-1, "a" 1+2 "b", 1 2+3 4}'
a 'BEGIN{print -1 " " -1; print 2 -1; x="A"; print x++ x, x}'
a 'BEGIN{i=5; print i++ + ++i, i--, --i; $0="3 4"; $1++; print $1, $0; print $1^2, $2--, $2; print -$1, !$1}'
a 'BEGIN{$3="c"; print NF, $0; $0="a b"; $(1+1)="z"; print; n=1; print $n++, n; print $NF}'
a 'BEGIN{x; if(x=="" && x==0) print "unset"; if (!y) print "no y"; print length(z), z+0}'
a 'BEGIN{print 1>2 ? "a" : "b"; print (1>2) ? "a" : "b"}'
trees 'awk, again'
a 'BEGIN{print 1<2?"yes":"no"; x = 1 ? 2 ? "a" : "b" : "c"; print x; print 1?2:3}'
a 'BEGIN{a="10"; b=9; print (a<b), (a+0<b); $0="10 9"; print ($1<$2), ($1<"9"), $1<9}'
a 'BEGIN{print 1 in a, length(a); if (("x" in a) == 0) print "none"; a["x"]; print ("x" in a)}'
a 'BEGIN { printf "%s\n", "a" "b" > "/dev/stdout"; print("x")("y"); print (1)(2); print(1,2)
  print (1+2)*3; print (1,2) in a }'
a '{ sum += $2 } END { print sum, sum/NR; printf("%.2f\n", sum/NR) }'
a '{ for (i = NF; i > 0; i--) printf "%s%s", $i, (i > 1 ? OFS : ORS) }'
a '!seen[$1]++'
a '{ if (length($0) > max) { max = length($0); line = $0 } } END { print max ": " line }'
a '{ w += NF; c += length($0) + 1 } END { print NR, w, c }'
a 'NR % 2 { printf "%s ", $0; next } 1'
a '{ $1 = $1 } 1; { sub(/[ \t]+$/, "") }; /x/ { print "x" }'
a 'length > 10'
a 'BEGIN { while (i++ < 3) { s = s i; if (s == "12") { print "two" } }; print s }'
a 'BEGIN { regex = "[" "abc" "]"; if (match("xxb", regex)) print RSTART }
'
a 'BEGIN{getline; print "got " $0; getline x; print "x=" x, NR}{print "main", $0; exit}'
a 'BEGIN { "date -u +%Y" | getline y; print (y > 2000) }'
a 'BEGIN { print substr("x", 0, 1) "|" substr("xyz", 1, 0) "|"; print index("", "a") }'
a 'BEGIN { print 0x10, "0x10"+0, 1e2, "1e2"+0, ".5"+0, "+5"+0, "5e"+0, "- 5"+0, " 12 "+0 }'
a 'BEGIN { print 100000 * 100000, 2^31, 2^53, 2^53+1, -2^63, 1e15, 1e16, 1e17, 123456789012345678 }'
a 'BEGIN { print 5 % 3, -5 % 3, 5.5 % 2, 2 ^ 0.5, 2 ^ -1, 1 / 4 }'
a 'BEGIN { print length(12345), length(1/4), 12 == "12", 12 == "12.0", "abc" < 1 }'
a 'BEGIN { print toupper(substr("word", 1, 1)) substr("word", 2) }'
a 'BEGIN { n = split("c a b", x); for (i = 2; i <= n; i++) for (j = i; j > 1 && x[j-1] > x[j]; j--) { t = x[j]; x[j] = x[j-1]; x[j-1] = t }; for (i = 1; i <= n; i++) printf "%s ", x[i]; print "" }'
a 'BEGIN { print gensub(/(a)(b)/, "\\2\\1", "g", "abab"); print gensub(/a/, "x", 2, "aaa"); print gensub("b", "[&]", 1, "abc"); print strtonum("0x1F"), strtonum("017"), strtonum("12") }'
a 'BEGIN { print strftime("%Y-%m-%d %H:%M:%S", 86400 * 365); print (systime() > 1000) }'
a 'BEGIN { if (match("key=value", /([a-z]+)=([a-z]+)/, m)) print m[1], m[2], m[0] }'
a 'BEGIN { print length() ; print length "x" }' /dev/null
a 'BEGIN{printf "%s %s\n", "only"}'
a 'BEGIN{print 1/0}'
a 'BEGIN{print 5%0}'
a 'BEGIN{print $(-1)}'
a 'BEGIN{print (1}'
a 'BEGIN{print "abc}'
a '{print $1'
a 'BEGIN{f(1)}'
a 'BEGIN{a[1]=1; print a}'
a 'BEGIN{/a(/}'
a '}'
a
a -f nowhere
a 'BEGIN{getline x < "nowhere"; print "go on"}'
a 'BEGIN { CONVFMT = "%d"; a[12.7] = 1; for (k in a) print k }'
a 'BEGIN { FS = ":" } { FS = " "; print $1 }'
a 'BEGIN { printf "%s", "a\
b"; print "tab\there \"quoted\" \\ \101 \x41" }'
a 'function max(m, n) {
    return m > n ? m : n
}
# comment between
function min(m, n) { return m < n ? m : n }
{ print max($1, $2), min($1, $2) }'
a '/alice/ { print "A" } ; /bob/ { print "B" } END { }'
a 'BEGIN { a = "x"; b = a++; print a, b; c = "3x"; c++; print c }'
a '{ a[NR] = $1 } END { for (i = 1; i in a; i++) print i, a[i] }'
a 'BEGIN { x["a"] = 1; f(x); print x["a"] } function f(y) { y["a"]++ }'
a '{ print (NF ? $NF : "empty") }'
a '$0 = tolower($0)'
a '/[0-9]+$/ { print substr($0, match($0, /[0-9]+$/)) }'
a 'BEGIN { do { n++; if (n == 2) continue; if (n > 4) break } while (n < 10); print n }'
a 'function f(x) { if (x) next; return 1 } { f(NR == 2); print NR }'
reads 'one\0two\nthree\377\n'
a '{print length($0); print}'
a '/two/{print "yes"}'
reads 'a b c'
a '{print $2; print NF}'
a 'BEGIN{RS=""}{print $3}'
reads '\n\n\na\nb\n\n\n\nc\n\n'
a 'BEGIN{RS=""}{printf "%s(%d)", $0, NF}END{print NR}'
a 'BEGIN{RS="\n\n+"}{printf "<%s>", $0}END{print NR}'
reads ''
a '{print}END{print NR, NF}'

# As config.status has it: a table of substitutions is made and used.
reads 'CC = @CC@\nprefix=@prefix@\nno @nothing@ here @CC@@prefix@\n@multi@\nlast\n'
a 'BEGIN {
S["CC"]="gcc -O2"
S["prefix"]="/usr/local"
S["multi"]="line1\n"\
"line2"
  for (key in S) S_is_set[key] = 1
  FS = ""
}
{
  line = $ 0
  nfields = split(line, field, "@")
  substed = 0
  len = length(field[1])
  for (i = 2; i < nfields; i++) {
    key = field[i]
    keylen = length(key)
    if (S_is_set[key]) {
      value = S[key]
      line = substr(line, 1, len) "" value "" substr(line, len + keylen + 3)
      len += length(value) + length(field[++i])
      substed = 1
    } else
      len += 1 + keylen
  }

  print line
}'
reads '#undef HAVE_X\n/* #undef HAVE_Y */\n#define OLD 1\n  #  undef  HAVE_X\n'
a 'BEGIN { D["HAVE_X"]=" 1"; P["f"]="(x)"; for (key in D) D_is_set[key] = 1; FS = "\a" }
/^[\t ]*#[\t ]*(define|undef)[\t ]+[_a-zA-Z][_a-zA-Z0-9]*([\t (]|$)/ {
  line = $ 0
  split(line, arg, " ")
  if (arg[1] == "#") { defundef = arg[2]; mac1 = arg[3] } else { defundef = substr(arg[1], 2); mac1 = arg[2] }
  split(mac1, mac2, "(")
  macro = mac2[1]
  prefix = substr(line, 1, index(line, defundef) - 1)
  if (D_is_set[macro]) { print prefix "define", macro P[macro] D[macro]; next }
  else if (defundef == "undef") { print "/*", prefix defundef, macro, "*/"; next }
}
{ print }'
