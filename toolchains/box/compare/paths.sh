# shellcheck shell=bash
# chmod, install, mktemp, readlink, realpath, stat, which: see compare.sh.

both sh -c 'umask 022; mkdir -p dir/sub; echo text > dir/file; : > empty; ln -s dir link; ln -s dir/file flink; ln -s nowhere dangling;
    ln -s loop loop; echo "echo hi" > script; mkdir tree; echo 1 > tree/a; echo 2 > tree/b; touch -d 2001-02-03T04:05:06.5Z dir/file empty;
    ln -s ../dir/file dir/sub/up'
same readlink link
same readlink flink dangling
same readlink -n link
same readlink -z link dangling
same readlink dir
same readlink nowhere
same readlink -v dir
same readlink
# What a path is depends on where this runs: only its end is compared.
both sh -c 'cat > end.sh << "END"
for path; do
    for how in "readlink -f" "readlink -e" "readlink -m" "realpath" "realpath -e" "realpath -m"; do
        out=$($how -- "$path" 2> /dev/null)
        code=$?
        here=$(pwd)
        case $out in
            "$here"*) out=HERE${out#"$here"} ;;
        esac
        echo "$how $path: $code $out"
    done
done
END'
same sh end.sh link flink dangling dir/file dir/./sub/../file dir//sub/ nowhere nowhere/deeper link/file link/.. dir/file/x / /nowhere . '' link/nowhere ./dir dir/sub/up dangling/x flink/ dir/file/
same sh -c 'd=$(pwd); realpath -s link dir/../empty flink | sed "s,$d,HERE,"'
same readlink -f loop
same realpath loop
same realpath --relative-to=. dir/file link/sub
same realpath --relative-to=dir/sub dir/file empty .
same realpath --relative-to=dir dir
same realpath --relative-to=. ..
same realpath -e nowhere
same realpath -q -e nowhere
same realpath
same realpath --relative-base=. dir/file
same stat -c %s dir/file empty
same stat -c '%n %F' dir dir/file empty link
same stat -c '%a %A' dir dir/file
same stat -c %N link flink dir
same stat -L -c '%F %n' link
same stat -c '%Y %y' dir/file
same stat -c '%.Y %.3Y %.0Y %.1Y' dir/file
same sh -c 'touch -d "$(stat -c %y dir/file)" again; stat -c %y again; touch -d "@$(stat -c %.Y dir/file)" again; stat -c %y again; rm again'
same stat -c '%X|%5s|%-5s|%05s|%%' dir/file
same stat --printf '%s\t%n\n' dir/file empty
same stat --format=%h dir/file
same stat -c %f dir dir/file
same stat -c '%u %g %U %G' dir
same stat -c %s nowhere
same stat -c %B:%t:%T dir/file
same stat
same mktemp -u --suffix=.c nodirXX
same mktemp tooXX
same mktemp -d nowhere/XXXXXX
same mktemp -q nowhere/XXXXXX
same mktemp -t a/XXXXXX
same mktemp XXXXXX XXXXXX
both sh -c 'cat > temp.sh << "END"
file=$(mktemp ./tmp.XXXXXX) && [ -f "$file" ] && echo "file ${#file}"
dir=$(mktemp -d ./dXXXXXX.d) && [ -d "$dir" ] && echo "dir ${#dir}"
name=$(mktemp -u aXXXXXXXX) && [ ! -e "$name" ] && echo "name ${#name}"
in=$(mktemp -p dir) && [ -f "$in" ] && echo "in ${#in} ${in%%/*}"
in=$(mktemp -p dir -d fooXXXXXX --suffix=.x) && [ -d "$in" ] && echo "in ${#in} ${in%%/*} ${in##*.}"
in=$(TMPDIR=dir mktemp) && echo "variable ${#in}"
in=$(TMPDIR=dir mktemp -t bar.XXXXXX) && echo "variable ${#in}"
in=$(mktemp --tmpdir=dir gooXXXX) && echo "long ${#in}"
rm -r "$file" "$dir" dir/tmp.* dir/foo* dir/bar* dir/goo*
END'
same sh temp.sh
same chmod 644 dir/file
same chmod u=rw,go=r dir/file
same chmod -v 644 dir/file
same chmod -c 644 dir/file
same chmod 999 dir/file
same chmod u+q dir/file
same chmod a dir/file
same chmod +rw dir/file
same chmod u+w,g-w dir/file
same chmod -x dir/file
same chmod -w,+r empty || true
same chmod a-x,u+rw dir/file
same chmod 755 dir
same chmod 755 nowhere
same chmod -f 755 nowhere
same chmod -R u+rwX,go+rX tree
same chmod --reference=dir/file empty
same chmod --reference=nowhere empty
same chmod 644
same chmod
both chmod u+w empty
trees chmod
same install -m 644 dir/file copied
same install -m644 dir/file empty tree
same install -d one/two three
same install -d -m 755 one/four
same install -D -m 644 dir/file new/deep/name
same install -c -m 644 dir/file into
same install -v -m 644 dir/file verbose
same install -d -v made
same install -m 644 -t tree script
same install -m 644 -D -t fresh/dir script
same install -m u=rw,go=r script symbolic
same install -p -m 644 dir/file dated
same install -m 644 nowhere x
same install -m 644 dir x
same install script
same install
same install -m 644 a b c
same install -m 644 script no/such/dir/name
same install -m 9 script x
same install -m 644 script script
same install -m 644 -T script tree
same install -d dir/file
trees install
# A file that is there keeps its permissions, unless they are copied.
both sh -c 'mkdir modes; cd modes; for f in a b c d e f; do echo $f > $f; done; chmod 755 a c e; mkdir s; cp -p a b s'
same cp modes/a modes/b
same cp modes/d modes/c
same cp -p modes/f modes/e
same cp modes/a modes/new
same cp modes/d modes/plain
same cp -r modes/s modes/copies
same cp modes/d modes/copies/a
same cp -a modes/s/. modes/copies
same find modes -type f -perm /111
trees cp
# Two names of one file, a file that was made beside, and a link that a copy is written through.
both sh -c 'mkdir links; cd links; echo x > a; ln a b; echo y > c; echo old > d.ln~; ln -s c to; touch -d 2001-01-01 c; touch -d 2002-01-01 ref'
same ln -f links/a links/b
same ln -sf a links/b
same ln -f links/a links/d.ln
same cp -p links/c links/new
same cp -p links/new links/to
same find links -newer links/ref -type f
same sed -i s/a/z/ modes/a
same sed -i s/b/z/ modes/b
same find modes -type f -perm /111
trees ln
same find dir tree -perm 644
same find dir tree -perm -u+r -type f
same find dir tree -type f -executable
same find dir -perm /111
same find dir -perm 9
same ls -F tree
same which no-such-program
same which /no/such
both sh -c 'mkdir -p app/out out; : > app/Makefile; : > out/precious; : > app/out/x; printf "#!/bin/sh\necho helper of \$PWD | sed \"s,.*/,,\"\n" > app/helper; chmod +x app/helper'
same sh -c 'find app -name Makefile -execdir rm -rf out ";"; find app -name Makefile -execdir touch mark ";"; find app -name mark -execdir echo {} of {} ";"'
same sh -c 'find app -name helper -execdir ./helper ";"; find app/ . -maxdepth 0 -execdir echo {} ";"; find app -type f -execdir echo + {} + | tr " " "\\n" | sort'
same find app -name Makefile -execdir false ";" -print
trees 'find -execdir'
same sh -c 'touch -d 2020-02-02T03:04:05Z app/ref; touch -r app/ref -d "1 hour ago" app/f; touch -d "-1 day" -r app/ref app/g; touch -d 2001-01-01Z -r app/ref app/h; stat -c %Y app/f app/g app/h'
same sh -c 'cd app; echo a > b; echo c > d; install -d -m 755 e; echo b > e/b; install b d; cat d'
same sh -c 'seq 200000 > app/long; tail -c 20 app/long; tail -n 3 app/long; tail -n 20000 app/long | cksum; tail -c +1288880 app/long; tail -n +199999 app/long; tail -n 0 app/long; tail -c 0 app/long'
same sh -c 'printf "no end" > app/short; tail -n 1 app/short; tail -n 5 app/short; tail --lines=2 app/long; head --bytes=3 app/long; tail --bytes=4 app/long; head --lines 2 --quiet app/long app/short; rm -r app out'
