#pragma once

void led_setup(void);
void led_toggle(void);
