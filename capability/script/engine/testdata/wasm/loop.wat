(module (func (export "_start") (loop $again (br $again))))
