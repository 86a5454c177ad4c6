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
both sh -c 'PATH=/usr/bin:/bin; mkdir evil out in; ln -s ../out evil/l; ln -s a evil/m; tar cf evil.tar -C evil l m; rm evil/l; mkdir evil/l; echo evil > evil/l/f; tar rf evil.tar -C evil l/f; rm -r evil'
same tar xf evil.tar -C in
trees 'tar x of a link that leads out'
both sh -c 'PATH=/usr/bin:/bin; rm -r in; mkdir in; ln -s .. in/up; ln -s /nowhere in/abs; tar cf links.tar -C in up abs; rm -r in; mkdir in'
same tar xf links.tar -C in
trees 'tar x of links'
# The permission that was set comes along.
both sh -c 'PATH=/usr/bin:/bin; echo x > run; chmod +x run'
same sh -c 'gzip run && chmod +x run.gz && gunzip run.gz && [ -x run ]'
trees 'gunzip of an executable'
