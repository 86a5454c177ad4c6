// loop: computes for ever and calls nothing, so only the runtime can stop it.
int main(void) {
    // volatile: the compiler may neither drop the loop nor work out where it leads.
    volatile unsigned count = 0;
    for (;;) count = count + 1;
}
