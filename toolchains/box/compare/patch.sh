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
