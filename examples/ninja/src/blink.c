#include "led.h"

void wait(void);

int main(void) {
    led_setup();
    for (;;) {
        led_toggle();
        wait();
    }
}
