# shellcheck shell=bash
# gunzip, gzip, tar, zcat: see compare.sh. What GNU compresses or packs is read by ours, and the other way round.

both sh -c 'umask 022; mkdir -p d/sub/deep; echo one > d/a; seq 1 5000 > d/n; : > d/empty; ln -s a d/link; ln d/a d/hard; echo deep > d/sub/deep/f;
    long=$(printf "%0120d" 7); mkdir -p "d/$long"; echo long > "d/$long/$long"; ln -s "$long/$long" d/longlink; touch -h -d 2001-02-03T04:05:06Z d/* d/*/* d/*/*/* d
    printf "x\0\377" > d/bin; touch -d 2002-02-03T04:05:06Z d/bin d/link d/sub d'
t() {
    same tar "$@"
}
# Made by GNU.
both sh -c 'PATH=/usr/bin:/bin; tar --format=gnu -cf gnu.tar d; tar --format=pax --pax-option=exthdr.name=%f,delete=atime,delete=ctime -cf pax.tar d; tar --format=gnu -czf gnu.tgz d; tar --format=ustar -cf ustar.tar d/a d/n d/sub 2> /dev/null; gzip -c d/n > n.gz; cp n.gz two.gz; gzip -c d/a >> two.gz;
    head -c 300 n.gz > cut.gz; sed "s/1/2/" n.gz > bad.gz; echo plain > plain.gz; head -c 3000 gnu.tar > cut.tar; echo junk > junk.tar; (cat n.gz; echo junk) > tail.gz'
for archive in gnu.tar pax.tar gnu.tgz ustar.tar; do
    t tf $archive
    t tvf $archive
    both mkdir "x.$archive"
    t xf $archive -C "x.$archive"
    trees "tar xf $archive"
done
t -tzf gnu.tgz d/sub
t tf gnu.tar d/a nowhere
t xvf gnu.tar d/sub d/a
t -x -O -f gnu.tar d/a
t --extract --file=gnu.tar --strip-components=2 d/sub
t xf gnu.tar --exclude='*n' --exclude=sub -C x.gnu.tar
t tf gnu.tar --exclude=sub
t tf nowhere.tar
t tf junk.tar
t xf gnu.tar -C nowhere
t
t cf new.tar
trees 'tar x'
# Made by ours, and read by GNU. Of links that were on the disk before a run, belljar does not say that they are one file.
both rm d/hard
t cf own.tar d/a d/n d/link
same sh -c 'ln d/a d/hard && tar cf - d/a d/hard | tar tf - && rm d/hard'
t cvf own2.tar d/sub
t -c -z -f own.tgz d/sub d/n
t -cf own3.tar -C d a n
t -cf own4.tar --exclude=n --exclude=longlink --exclude='0*' d/sub d/a nowhere
t --create --file own5.tar d/sub/deep
same sh -c 'tar cf - d/a | tar tf -'
same sh -c 'tar czf - d/sub d/n | tar xzf - -O d/n | tail -n 1'
both sh -c 'PATH=/usr/bin:/bin; for f in own own2 own3 own4 own5; do tar tvf $f.tar > $f.list || echo failed > $f.list; rm $f.tar; done; tar tvzf own.tgz > own.tgz.list; rm own.tgz'
trees 'tar c'
same gzip -dc n.gz
same zcat n.gz two.gz
same gunzip -c two.gz
same gzip -t n.gz
same gzip -t cut.gz
same gzip -t plain.gz
same gunzip -c tail.gz
same gunzip -c nowhere
same gunzip d/n
same gzip -d n.gz
same gzip -dk two.gz
same gzip -d two.gz
same gunzip -f two.gz
trees gunzip
for level in 1 6 9; do
    same sh -c "gzip -$level -c d/n | gzip -dc | cksum; gzip -$level < d/bin | zcat | od -c"
done
same gzip -n d/n
same gzip -k d/a
same gzip d/sub
same gzip d/n.gz
same gzip -9 d/empty
same gzip -S .z d/bin
both sh -c 'PATH=/usr/bin:/bin; for f in d/n.gz d/empty.gz d/bin.z; do gzip -dc < $f | cksum; rm $f; done > sums; rm -f d/a.gz'
trees gzip
reads 'hello\n'
same sh -c 'gzip | gunzip'
same gzip -d
# Links out of the directory are made at last: nothing is written through them.
both sh -c 'PATH=/usr/bin:/bin; mkdir evil out in; ln -s ../out evil/l; ln -s a evil/m; tar --mtime=@1 -cf evil.tar -C evil l m; rm evil/l; mkdir evil/l; echo evil > evil/l/f; tar --mtime=@1 -rf evil.tar -C evil l/f; rm -r evil'
same tar xf evil.tar -C in
trees 'tar x of a link that leads out'
both sh -c 'PATH=/usr/bin:/bin; rm -r in; mkdir in; ln -s .. in/up; ln -s /nowhere in/abs; tar --mtime=@1 -cf links.tar -C in up abs; rm -r in; mkdir in'
same tar xf links.tar -C in
trees 'tar x of links'
# The permission that was set comes along.
both sh -c 'PATH=/usr/bin:/bin; echo x > run; chmod +x run'
same sh -c 'gzip run && chmod +x run.gz && gunzip run.gz && [ -x run ]'
trees 'gunzip of an executable'
# Names that lead out of the directory lose that start; what is listed with -v does not.
both sh -c 'rm -rf a src; mkdir -p a/b src/s; echo 1 > src/f; echo 2 > src/s/g; ln -s ../f src/s/l; echo x > a/x; : > a/b/..b; touch -h -d 2001-02-03T04:05:06Z src/* src/s/* src a a/* a/b/..b'
c() { # COMMAND: in a/b
    same sh -c "cd a/b; $1; echo \$?"
}
l='| tar tf - | sort'
c "tar cf - ../../src $l"
c "tar cf - ../../src ../../a/x ../x $l"
c "tar cf - .. $l"
c "tar cf - ../ $l"
c "tar cf - ../.. --exclude=nothing | tar tf - | grep -c ."
c "tar cf - ../../a/../src/f $l"
c "tar cf - ./../x .//../x ..//x $l"
c "tar cf - ..b ../b/..b $l"
c "tar cf - a..b ..c $l"
c "tar cf - \$PWD/../../src/f $l"
c "tar cf - \$PWD/..b | tar tf - | sed 's,.*/,,'"
c "tar Pcf - ../x | tar tPf -"
c "tar Pcf - ../x | tar tf -"
c "tar cvf ../../o.tar ../../src ../x | sort; rm ../../o.tar"
c "tar cf ../../o.tar ../../src; mkdir ../../in; tar xf ../../o.tar -C ../../in; tar Pcf ../../o.tar ../x; tar xf ../../o.tar"
trees 'tar c of names that lead up'
# Without what is below.
c "tar --no-recursion -cf - / $l"
c "tar --no-recursion -cf - . .. ../.. $l"
c "tar --no-recursion -cf - ../../src ../../src/s $l"
same sh -c "rm -r in; tar cf - --no-recursion src --recursion a $l; tar cf - src --no-recursion a $l"
same sh -c "find src -path src/s -prune -o -print | tar --no-recursion -T - -cf - $l"
same sh -c "tar cf o.tar src a; tar tf o.tar --no-recursion src/s a/; tar --no-recursion -tf o.tar src; mkdir in; tar xf o.tar -C in --no-recursion src/s; find in | sort; rm -r in o.tar"
same sh -c 'tar cf o.tar -C a; echo $?; tar cf o.tar -T /dev/null; echo $?; tar tf o.tar; tar --format=nosuch -cf o.tar a; echo $?; rm -f o.tar'
same sh -c 'tar --mode=755 -cf - a/x | tar tvf - | cut -c1-10; tar --mode=a+x,g-w -cf - a/x src/s/g | tar tvf - | cut -c1-10; tar --mode=zz -cf - a > o.tar; echo $?; rm -f o.tar'
# Patterns, and names with more slashes than are needed.
for pattern in f s src/s s/ /src '*/g' s/g ./src src '*' '[sf]' 'src/*/g' / c/s '?' g a; do
    same sh -c "tar cf - --exclude='$pattern' src ./src/s src//s a//b//.. src/ $l; tar Pcf o.tar src ./src/s src//s \$PWD/src/s a//x; tar tf o.tar --exclude='$pattern' | sort | sed \"s,\$PWD,HERE,\"; rm o.tar"
done
same sh -c 'printf "s\nnothing/\n" > not; tar cf - -X not src//s src//f $PWD/a | tar tf - | grep src; tar cf - -X not src a > o.tar; mkdir in; tar xf o.tar -X not -C in; find in | sort; rm -r in o.tar not'
# What is in the way of an archive's directories and files.
both sh -c 'PATH=/usr/bin:/bin; rm -rf a src pkg; mkdir -p pkg/conf/deep; echo new > pkg/conf/c; ln -s nowhere pkg/conf/l; tar --mtime=@1 -cf p.tar pkg/conf; tar --mtime=@1 -cf whole.tar pkg; tar --mtime=@1 -cf file.tar pkg/conf/c; tar --mtime=@1 -cf deep.tar pkg/conf/deep; tar --mtime=@1 -cf link.tar pkg/conf/l;
    echo x > plain; tar --mtime=@1 -cf plain.tar plain; chmod +x plain; tar --mtime=@1 -cf run.tar plain; rm -r plain pkg'
x() { # COMMAND: with a link to a directory where the archive has one
    both sh -c 'rm -rf pkg shared p2 plain; mkdir pkg shared; echo mine > shared/c; ln -s ../shared pkg/conf'
    same sh -c "$1; echo \$?; [ ! -e plain ] || [ ! -x plain ] || echo runs"
    trees "$1"
}
for archive in p whole file deep link; do
    x "tar xf $archive.tar"
    x "tar xkf $archive.tar"
    x "tar xf $archive.tar --keep-directory-symlink"
    x "rm pkg/conf; echo file > pkg/conf; tar xf $archive.tar"
    x "rm pkg/conf; echo file > pkg/conf; tar xkf $archive.tar"
    x "rm pkg/conf; ln -s nowhere pkg/conf; tar xf $archive.tar"
    x "rm pkg/conf; ln -s nowhere pkg/conf; tar xf $archive.tar --keep-directory-symlink"
    x "mv pkg p2; ln -s p2 pkg; tar xf $archive.tar"
    x "mv pkg p2; ln -s p2 pkg; tar xf $archive.tar --strip-components=1"
    x "rm pkg/conf; mkdir -p pkg/conf/c pkg/conf/l; tar xf $archive.tar"
    x "rm pkg/conf; mkdir -p pkg/conf/c/q pkg/conf/l/q; tar xf $archive.tar"
    x "tar xf $archive.tar pkg/conf/c; tar xf $archive.tar pkg/conf"
done
# A file has the permission that its member has.
x 'echo old > plain; chmod +x plain; tar xf plain.tar'
x 'echo old > plain; chmod -x plain; tar xf run.tar'
x 'tar xf run.tar; tar xf plain.tar'
x 'tar xf plain.tar; tar xf run.tar'
# What is packed takes the place of a link.
both sh -c 'rm -rf z; mkdir z; cd z; echo new > f; echo mine > real; cp real real2; ln -s real f.gz; echo x | PATH=/usr/bin:/bin gzip -n > q.gz; ln -s real2 q; ln -s q.gz l.gz'
same sh -c 'cd z; gzip f; echo $?; gzip -fn f; cat real; gunzip -f q.gz; cat real2; gunzip l.gz; echo $?; ln -s real2 m; gzip m; echo $?; gzip -cn m | gunzip; rm *.gz'
trees 'gzip -f'
both rm -r z
