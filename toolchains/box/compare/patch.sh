# shellcheck shell=bash
# patch: see compare.sh.

both sh -c 'mkdir -p a/src b/src; seq 1 40 > a/src/n; seq 1 40 | sed "5s/.*/five/;20d;35a new line" > b/src/n; echo new > b/src/added; echo gone > a/src/gone;
    printf "int x;\nint y;\n" > a/c.c; printf "int x = 1;\nint y;\n" > b/c.c; printf "a\nb" > a/cut; printf "a\nc" > b/cut; touch -d 2001-02-03 a/src/* b/src/* a/c.c b/c.c a/cut b/cut;
    diff -ruN a b > all.patch; diff -u a/src/n b/src/n > one.patch; diff -u a/cut b/cut > cut.patch; diff -ru a b | grep -v "^Only" > some.patch'
fresh() {
    both rm -rf w
    both cp -r a w
    both cp all.patch one.patch cut.patch some.patch w
}
p() {
    same sh -c 'cd w && patch "$@"' patch "$@"
}
fresh
p -p1 -i all.patch
trees 'patch -p1'
p -p1 -R -i all.patch
trees 'patch -R'
fresh
p -p1 --dry-run -i all.patch
trees 'patch --dry-run'
p -p1 -s -i all.patch
trees 'patch -s'
fresh
p -p0 -d src n ../one.patch
p -d src -i ../one.patch
trees 'patch without -p'
fresh
both sh -c 'sed -i "1i zero\nzero" w/src/n'
p -p1 -i some.patch
trees 'patch with an offset'
fresh
both sh -c 'sed -i "4s/.*/four/;36s/.*/x/" w/src/n'
p -p1 -i some.patch
trees 'patch with fuzz'
fresh
both sh -c 'sed -i "4s/.*/four/" w/src/n'
p -p1 -F0 -i some.patch
trees 'patch -F0'
fresh
both sh -c 'sed -i "5s/.*/other/" w/src/n'
p -p1 -i some.patch
trees 'patch that fails'
fresh
p -p1 -N -i all.patch
p -p1 -N -i all.patch
both rm w/cut.rej # where GNU forgets the end of a line
trees 'patch -N again'
fresh
p cut cut.patch
trees 'patch without a newline'
fresh
p -p1 -b -i some.patch
trees 'patch -b'
fresh
fresh
p -p1 -o out src/n one.patch
trees 'patch -o'
fresh
both sh -c 'printf "From: somebody\nSubject: a change\n\ntext\n---\n c.c | 2 +-\n\ndiff --git a/c.c b/c.c\nindex 123..456 100644\n--- a/c.c\n+++ b/c.c\n@@ -1,2 +1,2 @@\n-int x;\n+int x = 1;\n int y;\n-- \n2.1\n" > w/git.patch;
    printf "diff --git a/fresh.c b/fresh.c\nnew file mode 100644\n--- /dev/null\n+++ b/fresh.c\n@@ -0,0 +1,2 @@\n+one\n+two\n" > w/new.patch;
    printf "diff --git a/c.c b/c.c\ndeleted file mode 100644\n--- a/c.c\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-int x = 1;\n-int y;\n" > w/del.patch;
    printf "%s\n" "--- a/c.c" "+++ b/c.c" "@@ -1,2 +1,2 @@" "-wrong" > w/bad.patch; echo garbage > w/garbage.patch; : > w/empty.patch;
    printf "%s\n" "--- a/../../evil" "+++ b/../../evil" "@@ -0,0 +1 @@" "+evil" > w/evil.patch'
p -p1 -i git.patch
p -p1 -i new.patch
p -p1 -i del.patch
trees 'patch of git'
fresh
both sh -c 'printf "%s\n" "--- a/c.c" "+++ b/c.c" "@@ -1,2 +1,2 @@" "-wrong" > w/bad.patch; echo garbage > w/garbage.patch; : > w/empty.patch'
p -p1 -i garbage.patch
p -p1 -i empty.patch
p -p1 -i nowhere.patch
trees 'patch at last'
fresh
both sh -c 'cp w/c.c w/c.old; ln w/c.c w/other.c; ln w/c.old w/old.c; printf "%s\n" "--- a/c.c" "+++ b/c.c" "@@ -1,2 +1,2 @@" "-int x;" "+int x = 1;" " int y;" > w/names.patch'
p -p1 -i names.patch
trees 'patch of a file with two names'
# Names in quotes, with blanks, and in the notation of git.
both sh -c 'rm -rf w a b; mkdir a b; for n in "my file" "tab	t" "q\"q" "back\\s" plain; do echo one > "a/$n"; echo two > "b/$n"; done; printf "one\n" > "a/$(printf "caf\303\251")"; printf "two\n" > "b/$(printf "caf\303\251")"; echo new > "b/new file"; touch -d 2001-02-03 a/* b/*;
    PATH=/usr/bin:/bin; diff -ruN a b > names.patch; printf "diff --git a/my file b/my file\n--- a/my file\t\n+++ b/my file\t\n@@ -1 +1 @@\n-one\n+two\n--- \"a/caf\\\\303\\\\251\"\n+++ \"b/caf\\\\303\\\\251\"\n@@ -1 +1 @@\n-one\n+two\n" > git.patch'
anew() { # PATCH...: a tree to patch, with these files beside
    both rm -rf w
    both cp -r a w
    [ $# = 0 ] || both cp "$@" w
}
anew names.patch
p -p1 -i names.patch
trees 'patch of names in quotes'
p -p1 -R -i names.patch
trees 'patch -R of names in quotes'
anew git.patch
p -p1 -i git.patch
trees 'patch of names in the notation of git'
both sh -c 'echo three > "w/my file"; rm -f w/*.orig'
p -p1 -i git.patch
trees 'patch of names with rejects'
h() { # OLD NEW: the names of a patch, as they are written
    anew
    both sh -c 'printf -- "--- %s\n+++ %s\n@@ -1 +1 @@\n-one\n+two\n" "$@" > w/head.patch' sh "$1" "$2"
    same sh -c 'cd w && patch -p1 -i head.patch > out; echo $?; grep patching out; rm out'
    trees "patch of $1"
}
h 'a/my file' 'b/my file'
h 'a/my file 2001-01-01 00:00:00' 'b/my file 2001-01-01 00:00:00'
h 'a/my file	2001-01-01 00:00:00' 'b/my file	2001-01-01 00:00:00'
h '"a/my file"' '"b/my file"'
h '"a/my file"	2001-01-01' '"b/my file"	2001-01-01'
h '"a/my file" 2001-01-01' '"b/my file" 2001-01-01'
h '"a/my file"x' '"b/my file"x'
h '"a/my fi' '"b/my fi'
h '"a/my\040file"' '"b/my\040file"'
h '"a/my\qfile"' '"b/my\qfile"'
h '"a/my\0file"' '"b/my\0file"'
h '"a/my\000file"' '"b/my\000file"'
h '"a/tab\tt"' '"b/tab\tt"'
h '"a/q\"q"' '"b/q\"q"'
h 'a/plain 2001-01-01 00:00:00' 'b/plain 2001-01-01 00:00:00'
h 'a/plain some text' 'b/plain some text'
h 'a/plain (revision 3)' 'b/plain (working copy)'
h 'a/my file	x	y' 'b/my file	x	y'
# What is no regular file, and what stands in the way of files that patch makes itself.
both sh -c 'rm -rf a b; mkdir -p a/sub/in a/dir; cd a; echo one > f; echo out > ../real; ln -s ../real lnk; ln -s ../made dang; ln -s sub ls; echo gone > sub/in/g;
    printf -- "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-one\n+two\n" > ../f.patch; printf -- "--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+x\n" > ../new.patch; printf -- "--- a/sub/in/g\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n" > ../del.patch;
    sed s,/f,/lnk, ../f.patch > ../lnk.patch; sed s,/f,/dir, ../f.patch > ../dir.patch; sed s,new,dang, ../new.patch > ../dang.patch; sed s,new,ls/in/new, ../new.patch > ../ls.patch; cat ../f.patch > ../twice.patch; sed "s/two/three/;s/one/two/" ../f.patch >> ../twice.patch'
s() { # COMMAND: in a fresh tree
    anew f.patch new.patch del.patch lnk.patch dir.patch dang.patch ls.patch twice.patch
    same sh -c "cd w; $1; echo \$?"
    trees "$1"
}
for options in '' -b -f -t -N -s --dry-run; do
    s "patch -p1 $options < lnk.patch"
    s "patch -p1 $options < dir.patch"
    s "patch -p1 $options < dang.patch"
    s "patch -p1 $options < ls.patch"
    s "patch -p1 $options < del.patch"
    s "patch -p1 $options < new.patch"
    s "patch -p1 $options < twice.patch"
done
s 'patch lnk f.patch'
s 'ln -s nowhere f.orig; patch -b -p1 < f.patch'
s 'ln -s nowhere f.rej; echo other > f; patch -p1 < f.patch'
s 'ln -s nowhere r; echo other > f; patch -r r -p1 < f.patch'
s 'echo > sub/in/h; patch -p1 < del.patch'
s 'patch -p1 --posix < del.patch'
s 'patch -p1 -b -z .old < del.patch'
s 'patch -b ls/in/new new.patch'
# Patches that were applied before.
for options in '' -t -f -N -R '-R -t' '-R -f' '-R -N' '-t -b'; do
    for file in f new del; do
        s "patch -p1 $options < $file.patch; echo \$?; patch -p1 $options < $file.patch"
    done
done
both rm -rf w a b
# What git says of modes and of files without hunks. `g` prints what became of the permissions.
both sh -c 'rm -rf a; mkdir a; cd a; echo one > f; echo one > run; chmod +x run; : > empty; echo one > "a b"'
g() { # OPTIONS PATCH
    anew
    both sh -c 'printf "$1" > w/git.patch' sh "$2"
    same sh -c "cd w; patch -p1 $1 < git.patch; echo \$?; find . -type f -perm /111"
    trees "patch $1 of git: $2"
}
hunk='@@ -1 +1 @@\n-one\n+two\n'
g '' 'diff --git a/f b/f\nold mode 100644\nnew mode 100755\n'
g -R 'diff --git a/f b/f\nold mode 100755\nnew mode 100644\n'
g '' 'diff --git "a/f" "b/f"\nold mode 100644\nnew mode 100755\n'
g '' "diff --git a/f b/f\nold mode 100644\nnew mode 100755\n--- a/f\n+++ b/f\n$hunk"
g '' "diff --git a/run b/run\nold mode 100755\nnew mode 100644\nindex 1..2\n--- a/run\n+++ b/run\n$hunk"
g '' "diff --git a/run b/run\nindex 1..2 100755\n--- a/run\n+++ b/run\n$hunk"
g '' 'diff --git a/n b/n\nnew file mode 100755\nindex 0000000..1\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n'
g '' 'diff --git a/d/n b/d/n\nnew file mode 100644\nindex 0000000..e69de29\n'
g '' "diff --git a/f b/f\nold mode 100644\nnew mode 100755\ndiff --git a/run b/run\nindex 1..2 100755\n--- a/run\n+++ b/run\n$hunk"
# Links to other directories, in the current one and out of it.
both sh -c 'rm -rf a out; mkdir -p a/in/er a/sub out; cd a; ln -s ../out o; ln -s ../in sub/l; ln -s ../w/in round; ln -s in i; ln -s i/er j; ln -s loop loop; echo one > in/f; echo one > ../out/f'
for place in o sub/l round i j i/er/../x loop o/../in; do
    anew
    both sh -c 'printf -- "--- /dev/null\n+++ b/%s/new\n@@ -0,0 +1 @@\n+x\n--- a/%s/f\n+++ b/%s/f\n@@ -1 +1 @@\n-one\n+two\n" "$1" "$1" "$1" > w/link.patch' sh "$place"
    same sh -c 'cd w; patch -p1 < link.patch > ../said 2>&1; echo $?'
    both rm said
    trees "patch through $place"
done
both rm -rf a w out
