# blink.v to blink.bin, the bitstream of an iCE40 HX1K in the package TQ144.
set -e
yosys -q -p 'synth_ice40 -top top -json blink.json' blink.v
nextpnr-ice40 -q --hx1k --package tq144 --json blink.json --pcf blink.pcf --asc blink.asc
icepack blink.asc blink.bin
