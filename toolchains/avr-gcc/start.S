; What runs before main on any chip that <avr/io.h> knows: the vectors, and the stack. Variables get their initial values in
; between (.init4), by code of libgcc that the compiler asks for where there are any.
#include <avr/io.h>

#ifdef __AVR_HAVE_JMP_CALL__
# define GO jmp
# define CALL call
# define VECTOR_BYTES 4
#else
# define GO rjmp
# define CALL rcall
# define VECTOR_BYTES 2
#endif

        .section .vectors, "ax", @progbits
        .global __vectors
        .altmacro
        .macro  vector number
        .weak   __vector_\number
        .set    __vector_\number, bad_interrupt
        GO      __vector_\number
        .endm
__vectors:
        GO      reset
        .set    number, 1
        .rept   _VECTORS_SIZE / VECTOR_BYTES - 1
        vector  %number
        .set    number, number + 1
        .endr

        .section .init2, "ax", @progbits
reset:
        clr     r1                      ; compiled code counts on r1 being 0
        out     _SFR_IO_ADDR(SREG), r1
        ldi     r28, lo8(__stack)
#ifdef SPH
        ldi     r29, hi8(__stack)
        out     _SFR_IO_ADDR(SPH), r29
#endif
        out     _SFR_IO_ADDR(SPL), r28

        .section .init9, "ax", @progbits
        CALL    main
stop:   rjmp    stop
bad_interrupt:
        GO      __vectors
