# shellcheck shell=bash
# What several operands and links make of cp, find, grep, install, ln and mv: see compare.sh.

anew() {
    both sh -c 'rm -rf a b c out deep; mkdir -p a/d b/d out deep/in/er; echo A > a/x; echo B > b/x; echo A > a/d/y; echo B > b/d/y; echo z > a/d/z; ln -s tgt a/l; ln -s tgt2 b/l; echo real > a/m; ln -s ../deep/file b/m; echo deep > deep/file; echo in > deep/in/f'
}
o() { # COMMAND: and what it leaves
    anew
    same sh -c "$1; echo \$?"
    trees "$1"
}
# What one operand has put there, another does not replace.
o 'cp a/x b/x out'
o 'cp -f a/x b/x out'
o 'cp -n a/x b/x out'
o 'cp -v a/x b/x out'
o 'cp -t out a/x b/x'
o 'cp a/x a/x out'
o 'cp -r a/d a/d out'
o 'cp a/x ./a/../a/x out'
o 'cp -r a/d b/d out'
o 'cp -rn a/d b/d out'
o 'cp -r a/. b/. out'
o 'cp -r a/x b/. out'
o 'cp -a a/l b/l out'
o 'cp -P b/m a/m out'
o 'cp -P a/m b/m out'
o 'cp a/x b/y b/x out'
o 'mv a/x b/x out'
o 'mv -f a/x b/x out'
o 'mv -n a/x b/x out'
o 'mv -v a/x b/x out'
o 'mv a/x a/x out'
o 'mv a/d b/d out'
o 'mv a/l b/l out'
o 'rm a/d/*; mv a/d b/d out'
o 'rm -r b/x; mkdir b/x; mv b/x a/x out; mv a/d b/d out'
o 'ln a/x b/x out'
o 'ln -f a/x b/x out'
o 'ln -s ../a/x ../b/x out'
o 'ln -sf ../a/x ../b/x out'
o 'install -m 644 a/x b/x out'
o 'install -m 644 a/x a/x out'
o 'install -m 644 -t out a/x b/x'
o 'find a b -name x -exec cp -t out {} +'
o 'find a b -name x -exec mv -t out {} +'
o 'find a -name x -exec cp {} out ";"; find b -name x -exec cp {} out ";"; cat out/x'
# .. has no name of its own in a directory.
o 'cp -r deep/in/.. out'
o 'cp -r deep/in/../ out'
o 'cp -a deep/in/.. out'
o 'cp -a -t out deep/in/..'
o 'cp -r deep/in/.. a/d/. b/d/.. out'
o 'cp -r deep/in/.. out/made'
o 'cp -rT deep/in/.. out'
o 'cp deep/in/.. out'
o 'cd deep/in; cp -r .. ../../out'
o 'cd deep/in; cp -r ../ ../../out'
o 'cd deep/in; cp -r . ../../out'
o 'mv deep/in/.. out'
o 'mv deep/in/. out'
o 'install -m 644 deep/in/.. out'
o 'ln -s .. out'
o 'ln -sf .. out'
anew

# Links that a walk follows.
both sh -c 'mkdir -p w/d/s w/e; cd w; echo one > a; echo one > d/x; echo one > d/s/y; ln -s d ld; ln -s ../a d/la; ln -s ../../d d/s/loop; ln -s nowhere e/dang; ln -s ../d/s e/ls; echo one > e/f'
for operands in 'ld' 'ld -type d' 'ld -type l' 'd/la -type f' 'e/dang -type l' 'ld -name x' 'ld -maxdepth 0 -type d' 'nowhere' 'ld/ -type f' \
    'ld -name ld' 'ld -path ld/s*' 'ld -newer d/la -name nothing' 'e/ls e/f -print' 'e/ls -prune' 'ld -depth -name s'; do
    for how in -H -P "-H -P" "-P -H"; do
        same sh -c "cd w && find $how $operands | sort; find $how $operands > /dev/null"
    done
done
for operands in 'one d' 'one ld' 'one e' 'one e/ls d/la' 'one e/dang' 'one d/s' 'nothing d/s' 'one'; do
    for how in -r -R -rR -Rr -Rl -rl -Rc -Rs -Rh '-R --exclude-dir=s' '-R --exclude-dir=ls' '-R --include=la' '-R --exclude=x' --dereference-recursive; do
        same sh -c "cd w; grep $how $operands > ../found; echo \$?; sort ../found"
    done
done
same sh -c 'cd w && find -H e/ls -delete; ls d/s'
both rm -rf w found a b c out deep
both sh -c 'mkdir -p d/e f; echo x > d/x; echo y > d/e/y; echo z > z; ln -s z l'
same sh -c 'rm -v l z nowhere; rm -fv nowhere d/x; rm -rv d; rm -dv f'
trees 'rm -v'
