// The LED of an Arduino Uno: port B, pin 5.
#include <avr/io.h>
#include "led.h"

void led_setup(void) { DDRB |= _BV(DDB5); }
void led_toggle(void) { PORTB ^= _BV(PORTB5); }
