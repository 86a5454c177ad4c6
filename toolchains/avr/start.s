; What runs before main on an ATmega328P: the reset vector and the stack. Variables get their initial
; values in between (.init4), by code of libgcc that the compiler asks for where there are any.
        .section .vectors, "ax", @progbits
        .global __vectors
__vectors:
        jmp     reset

        .section .init2, "ax", @progbits
reset:
        clr     r1                      ; compiled code counts on r1 being 0
        out     0x3f, r1                ; SREG
        ldi     r28, lo8(__stack)
        ldi     r29, hi8(__stack)
        out     0x3e, r29               ; SPH
        out     0x3d, r28               ; SPL

        .section .init9, "ax", @progbits
        call    main
stop:   rjmp    stop
