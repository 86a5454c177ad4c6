# shellcheck shell=bash
# egrep, fgrep and grep with lines around those that match, rules for names, long options: see compare.sh.

both sh -c 'seq 1 40 > n; printf "a\nb\nc\n" > abc; printf "hit\n" > one; : > none; printf "x\n\0y\nhit\nz\n" > bin'
for options in '-A2 1' '-B2 1' '-C1 1' '-1 1' '-2 5' '-12 2' '-1 -2 20' '-n -A1 3' '-nC2 7' '-A0 1' '-B0 1' '-C0 5' '-vA1 1' '-vC1 [1-3]' \
    '-m1 -A3 1' '-m2 -A3 1' '-m2 -C9 3' '-m1 -B4 20' '-c -A2 1' '-l -A2 1' '-q -A2 1' '-L -C2 1' '-oA1 1' '-o -A1 zz' '-on -C2 5' \
    '-B100 40' '-A100 1' '-A99999999999999999999 39' '-B99999999999999999999 3' '-C2 -A0 20' '-A0 -C2 20' '-B1 -C3 20' '-A1 -B3 -n 20' \
    '-A2 -e 5 -e 6' '-xA1 7' '-wB1 7' '-FC1 7' '-A -1 1' '-A x 1' '-C' '-5x 7' '-A1k 40' '-HA1 40' '-HnB1 40' '-nB2 -m1 .' '-A1 -m0 .' \
    '--after-context=1 20' '--before-context=1 20' '--context=1 20' '--max-count=2 1' '--count 1' '--regexp=20' '--line-number 20' \
    '--invert-match -c 1' '--quiet 1' '--silent 99' '--only-matching 2' '--word-regexp 2' '--line-regexp 2' '--with-filename 20' \
    '--no-filename 20' '--ignore-case A' '--extended-regexp ^(20|21)$' '--fixed-strings 20' '--basic-regexp 20' '--files-with-matches 2' \
    '--files-without-match 2' '--text 20' '--color=never 20' '--colour=auto 20' '--color 20' '--no-messages 20' '--file=one' '--nosuch 1'; do
    # shellcheck disable=SC2086
    same grep $options n
done
for options in -A1 -B1 -C1 -A0 -nC1 '-c -A1' '-l -A1' '-hA1' '-HnA1' '-m1 -A1' '-oA1' '-vA1' '-Z' '-cZ' '-lZ' '-LZ' '--null -n' '-ZnC1'; do
    # shellcheck disable=SC2086
    same grep $options 1 n abc one n
    # shellcheck disable=SC2086
    same grep $options b abc none n
done
same grep -A1 hit bin one
same grep -aC1 hit bin
same grep -C1 nix bin
reads 'one\ntwo\nthree\nfour\nfive\nsix'
for options in '-A1 two' '-B1 six' '-C1 four' '-nA9 five' '-1 t' '-B2 -c t'; do
    # shellcheck disable=SC2086
    same grep $options
    # shellcheck disable=SC2086
    same grep -H $options -
done

both sh -c 'mkdir -p t/src t/lib/src t/.git; for f in t/a.c t/a.h t/src/b.c t/lib/src/c.h t/.git/d.c t/lib/e.txt; do echo hit > $f; done'
for options in '--include=a.c' '--include=e.txt' '--include=*.txt' '--include=*.h' '--exclude=*.[ch]' '--exclude-dir=src --exclude-dir=.git --include=*.c' \
    '--include=*.h --exclude-dir=lib' '--include=*.c --exclude=a.c --exclude-dir=.git' '--exclude=a.c --exclude-dir=.git --include=*.c' \
    '--include=nothing' '--exclude-dir=*' '--exclude-dir=t' '--include=c.h' '--include=src'; do
    # Sorted, for the order of the names is that of the directory there.
    same sh -c "grep -r $options hit t | sort"
    same sh -c "grep -rl $options hit t | sort"
done
same grep --include='*.c' hit t/a.c t/a.h
same grep --exclude='*.c' hit t/a.c t/a.h t/src/b.c
same grep --exclude='a.*' hit t/a.c t/src/b.c
same grep --exclude='src/b.c' hit t/a.c t/src/b.c

reads 'a+b\n(x)\naab\na|b\n'
same egrep 'a+b'
same egrep -c '(a|x)'
same fgrep 'a+b'
same fgrep -n '|'
same fgrep -e '(x' -e a+
same egrep -A1 x
