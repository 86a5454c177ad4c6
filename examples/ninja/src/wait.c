#include <util/delay.h>

void wait(void) { _delay_ms(250); }
