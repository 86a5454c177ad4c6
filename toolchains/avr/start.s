; What runs before main on an ATmega328P: the reset vector, the stack, and variables that begin as 0.
; Variables with other initial values would have to be copied from flash here.
        .section .vectors, "ax", @progbits
        .global __vectors
__vectors:
        jmp     reset

        .text
reset:
        clr     r1                      ; compiled code counts on r1 being 0
        out     0x3f, r1                ; SREG
        ldi     r28, lo8(__stack)
        ldi     r29, hi8(__stack)
        out     0x3e, r29               ; SPH
        out     0x3d, r28               ; SPL
        ldi     r26, lo8(__bss_start)
        ldi     r27, hi8(__bss_start)
        ldi     r24, hi8(__bss_end)
        rjmp    2f
1:      st      X+, r1
2:      cpi     r26, lo8(__bss_end)
        cpc     r27, r24
        brne    1b
        call    main
stop:   rjmp    stop
