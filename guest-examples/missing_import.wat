;; A module that imports what no runtime offers. Called without arguments it never uses the import,
;; so a runtime that fills such holes with traps runs it to exit code 0; with an argument it
;; calls env.nowhere and must trap. A runtime that refuses it at once has to name the import.
(module
  (import "wasi_snapshot_preview1" "args_sizes_get"
    (func $args_sizes_get (param i32 i32) (result i32)))
  (import "env" "nowhere" (func $nowhere (param i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "_start")
    (drop (call $args_sizes_get (i32.const 0) (i32.const 4)))
    ;; argv[0] counts as one
    (if (i32.gt_u (i32.load (i32.const 0)) (i32.const 1))
      (then (drop (call $nowhere (i32.const 7)))))))
