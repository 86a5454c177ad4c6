# From SOURCE.c to SOURCE.hex for an ATmega328P, in one run and without a driver:
#
#   belljar sh --apply --toolchain avr/wasm --dir avr/include::/inc::ro --dir avr/sysroot::/lib::ro \
#       firmware.sh blink.c
set -eu -o pipefail

name=${1%.c}
code='-quiet -mmcu=avr5 -mn-flash=1 -Os'
chip='-D__AVR_ATmega328P__ -D__AVR_DEVICE_NAME__=atmega328p -DF_CPU=16000000UL'

# Preprocessor, compiler and assembler run at once, each reading what the one before it writes.
cc1 -E $code $chip -isystem /inc/gcc -isystem /inc/avr "$1" |
    cc1 -fpreprocessed $code - -o - |
    avr-as -mmcu=atmega328p -o "$name.o"
avr-as -mmcu=atmega328p -o start.o start.s
avr-ld -m avr5 -T atmega328p.ld -o "$name.elf" start.o "$name.o" -L/lib/avr5 -lgcc
avr-objcopy -O ihex "$name.elf" "$name.hex"

# The bytes of every record add up to 0.
tr -d '\r' <"$name.hex" | while IFS=: read -r _ record; do
    sum=0
    while [ -n "$record" ]; do
        rest=${record#??}
        sum=$((sum + 0x${record%"$rest"}))
        record=$rest
    done
    [ $((sum & 255)) -eq 0 ] || { echo "$name.hex: a record is wrong" >&2; exit 1; }
done

echo "records by type:"
cut -c8-9 "$name.hex" | sort | uniq -c
sha256sum "$name.hex"
