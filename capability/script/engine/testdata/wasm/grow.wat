;; Takes memory until there is none, and then traps.
(module
  (memory (export "memory") 1)
  (func (export "_start") (loop $again (br_if $again (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) (unreachable)))
