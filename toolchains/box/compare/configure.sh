# shellcheck shell=bash
# A script that autoconf made, from its start to the files of config.status: see tests/configure.

both cp -r "$here/../../tests/configure" sample
both sh -c 'cat > sample/go.sh << "END"
cd sample || exit
sh ./configure --prefix=/opt/x --enable-extra --with-level=7 FLAVOUR=sweet SED=sed GREP=grep EGREP="grep -E" \
    FGREP="grep -F" AWK=awk INSTALL=install MKDIR_P="mkdir -p" SORTER=sort MAKE=false > out 2>&1
code=$?
# What the machine has, and where it is.
grep -v "^checking whether make\|^checking for no-such-sort\|^checking for sort" out
cat sub/data.txt config.h linked.txt stamp.txt run.sh
grep -v "MAKE" Makefile
sh ./config.status --file=again.txt:data.txt.in && cat again.txt
echo "exit $code"
END'
same sh sample/go.sh
