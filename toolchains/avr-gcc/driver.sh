# avr-gcc and avr-g++: compile, assemble and link C, C++ and assembler for AVR microcontrollers, by the programs of GCC
# and binutils. They understand what drivers of GCC usually get; anything else is an error, not ignored.
set -u -o pipefail

root=${0%/bin/*}
name=${0##*/}

usage() {
    cat <<EOF
usage: $name [OPTION]... FILE...

FILE is C (.c), C++ (.cc .cpp .cxx .C), assembler (.s, or .S with preprocessing), an object (.o) or a library (.a).

  -mmcu=CHIP        the chip (default: atmega328p); one of
                    $(chips)
  -E -S -c          stop after preprocessing, compiling or assembling
  -o FILE           the output; .hex gets Intel hex, .bin the bare image, any other name ELF
  -D -U -I -include -isystem -std= -O -g -W -w -f -m -p
                    for the compiler, as in GCC
  -l -L -T -Wl, -nostartfiles -nostdlib
                    for the linker; there are libgcc and libm, and no C library
  -Wa,              for the assembler
EOF
}

fail() {
    echo "$name: $*" >&2
    exit 1
}

# Prints WORD so that eval gives it back.
quoted() { # WORD
    rest=$1 word=
    while case $rest in *\'*) ;; *) false ;; esac; do
        word="$word${rest%%\'*}'\\''"
        rest=${rest#*\'}
    done
    printf " '%s'" "$word$rest"
}

chips() {
    echo atmega48 atmega48p atmega88 atmega88p atmega168 atmega168p atmega328 atmega328p atmega32u4 atmega2560 \
        attiny13 attiny13a attiny2313 attiny4313 attiny24 attiny25 attiny44 attiny45 attiny84 attiny85
}

# Sets arch, lib (the folder of libgcc) and macro (what <avr/io.h> knows the chip by).
describe() { # CHIP
    flash=1
    case $1 in
        atmega48* | atmega88*) arch=avr4 lib=avr4 ;;
        atmega2560) arch=avr6 lib=avr6 flash=4 ;;
        atmega*) arch=avr5 lib=avr5 ;;
        attiny13* | attiny2313 | attiny24 | attiny25) arch=avr25 lib=avr25/tiny-stack ;;
        attiny*) arch=avr25 lib=avr25 ;;
    esac
    case " $(chips) " in
        *" $1 "*) ;;
        *) fail "the chip $1 is not known; there are: $(chips)" ;;
    esac
    # ATmega328P: all letters after the digits are capitals.
    case $1 in
        atmega*) macro=ATmega$(printf %s "${1#atmega}" | tr a-z A-Z) ;;
        attiny*) macro=ATtiny$(printf %s "${1#attiny}" | tr a-z A-Z) ;;
    esac
}

chip=atmega328p stop=link output= default_stack=
compile= assemble= link= inputs= defines= nostart= nolibs=

while [ $# -gt 0 ]; do
    arg=$1
    shift
    case $arg in
        -h | --help) usage; exit 0 ;;
        --version) echo "$name (GCC) 15.2.0"; exit 0 ;;
        -dumpversion) echo 15.2.0; exit 0 ;;
        -dumpmachine) echo avr; exit 0 ;;
        -mmcu=*) chip=${arg#-mmcu=} ;;
        -E) stop=preprocess ;;
        -S) stop=compile ;;
        -c) stop=assemble ;;
        -o) [ $# -gt 0 ] || fail "-o needs a file"; output=$1; shift ;;
        -o*) output=${arg#-o} ;;
        -nostartfiles) nostart=1 ;;
        -nodefaultlibs) nolibs=1 ;;
        -nostdlib) nostart=1 nolibs=1 ;;
        -T | -L | -l)
            [ $# -gt 0 ] || fail "$arg needs a value"
            link="$link$(quoted "$arg$1")"
            shift
            ;;
        -l*) inputs="$inputs$(quoted "$arg")" ;;
        -L* | -T* | -static | -s) link="$link$(quoted "$arg")" ;;
        -Wl,*)
            list=${arg#-Wl,},
            while [ -n "$list" ]; do link="$link$(quoted "${list%%,*}")" list=${list#*,}; done
            ;;
        -Wa,*)
            list=${arg#-Wa,},
            while [ -n "$list" ]; do assemble="$assemble$(quoted "${list%%,*}")" list=${list#*,}; done
            ;;
        -D | -U | -I | -include | -isystem | -iquote | -imacros | -MF | -MT | -MQ)
            [ $# -gt 0 ] || fail "$arg needs a value"
            defines="$defines$(quoted "$arg")$(quoted "$1")"
            shift
            ;;
        -D* | -U* | -I* | -M | -MM | -MD | -MMD | -MP | -nostdinc | -P | -C | -CC | -d[DIMNU]) defines="$defines$(quoted "$arg")" ;;
        -flto*) fail "$arg: this compiler has no plugin for the linker" ;;
        -v | -pipe | -save-temps) ;;
        -O* | -g* | -W* | -w | -f* | -m* | -std=* | -ansi | -pedantic* | -p*) compile="$compile$(quoted "$arg")" ;;
        -) fail "standard input cannot be compiled: name a file" ;;
        -*) fail "the option $arg is not supported (see $name --help)" ;;
        *) inputs="$inputs$(quoted "$arg")" ;;
    esac
done
[ -n "$inputs" ] || fail "no input files (see $name --help)"
describe "$chip"

target="-mmcu=$arch -mn-flash=$flash"
defines="-D__AVR_${macro}__ -D__AVR_DEVICE_NAME__=$chip -D__AVR_RODATA_IN_RAM__=1$defines"
system="-isystem $root/include/gcc -isystem $root/include/avr"

# Runs the compiler proper for the language of FILE.
compiler() { # FILE ARG...
    file=$1
    shift
    case $file in
        *.c | *.i) program='"$root/cc1"' ;;
        *.S) program='"$root/cc1" -E -lang-asm' ;;
        *) program='"$root/cc1plus"' ;;
    esac
    eval "$program -quiet $target $defines $system $compile \"\$@\" \"\$file\""
}

# Makes the object OUT of FILE.
object() { # FILE OUT
    case $1 in
        *.s) eval "\"\$root/avr-as\" -mmcu=$arch -mgcc-isr $assemble -o \"\$2\" \"\$1\"" ;;
        *) compiler "$1" -o - | eval "\"\$root/avr-as\" -mmcu=$arch -mgcc-isr $assemble -o \"\$2\"" ;;
    esac || { status=$?; rm -f "$2"; exit $status; }
}

base_of() { # FILE
    base=${1##*/}
    base=${base%.*}
}

tmp=/tmp/$name-$$
objects= count=0
eval "set -- $inputs"
if [ "$stop" != link ] && [ -n "$output" ] && [ $# -gt 1 ]; then
    fail "with -o and -c, -S or -E there is one input, not $#"
fi
[ $# -gt 1 ] || default_stack=1
for file in "$@"; do
    case $file in
        -l* | *.o | *.a) objects="$objects$(quoted "$file")"; continue ;;
        *.c | *.i | *.cc | *.cpp | *.cxx | *.C | *.ii | *.s | *.S) ;;
        *) fail "$file: what it is cannot be told from its name (see $name --help)" ;;
    esac
    [ -f "$file" ] || fail "$file: no such file"
    base_of "$file"
    case $stop in
        preprocess) compiler "$file" -E ${output:+-o "$output"} || exit ;;
        compile) compiler "$file" -o "${output:-$base.s}" || { status=$?; rm -f "${output:-$base.s}"; exit $status; } ;;
        assemble) object "$file" "${output:-$base.o}" ;;
        link)
            count=$((count + 1))
            object "$file" "$tmp-$count.o"
            objects="$objects$(quoted "$tmp-$count.o")"
            ;;
    esac
done
[ "$stop" = link ] || exit 0

case " $link" in
    *" '-T"*) ;;
    *)
        eval "\"\$root/cc1\" -E -P -lang-asm -quiet $target $defines $system \"\$root/lib/link.ld\" -o \"\$tmp.ld\"" || exit
        link="$link -T $tmp.ld"
        ;;
esac
if [ -z "$nostart" ]; then
    eval "\"\$root/cc1\" -E -lang-asm -quiet $target $defines $system \"\$root/lib/start.S\" -o -" |
        "$root/avr-as" "-mmcu=$arch" -o "$tmp-start.o" || exit
    objects=" $tmp-start.o$objects"
fi
[ -n "$nolibs" ] || objects="$objects -L$root/sysroot/$lib --start-group -lgcc -lm --end-group"

output=${output:-a.out}
case $output in
    *.hex) format=ihex ;;
    *.bin) format=binary ;;
    *) format= ;;
esac
elf=${format:+$tmp.elf}
eval "\"\$root/avr-ld\" -m $arch -o \"\${elf:-\$output}\" $link $objects" || exit
[ -z "$format" ] || "$root/avr-objcopy" -O "$format" -R .eeprom -R .fuse -R .lock "$elf" "$output" || exit
rm -f "$tmp"*
