;; Writes to the output what it reads from the input, and a line to the log.
(module
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 32) "hello\n")
  (func (export "_start")
    (i32.store (i32.const 0) (i32.const 32))
    (i32.store (i32.const 4) (i32.const 6))
    (drop (call $write (i32.const 2) (i32.const 0) (i32.const 1) (i32.const 16)))
    (loop $again
      (i32.store (i32.const 0) (i32.const 64))
      (i32.store (i32.const 4) (i32.const 1000))
      (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 16)))
      (i32.store (i32.const 4) (i32.load (i32.const 16)))
      (if (i32.load (i32.const 16)) (then
        (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 20)))
        (br $again))))))
