;; hello without a libc: one fd_write. What is left when nothing is left to save.
(module
  (import "wasi_snapshot_preview1" "fd_write"
    (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\10\00\00\00\0d\00\00\00")   ;; one iovec: 13 bytes at 16
  (data (i32.const 16) "hello, world\n")
  (func (export "_start")
    ;; stdout, one iovec at 0; the count of bytes written goes to 8
    (if (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))
      (then (call $proc_exit (i32.const 1))))))
