#!/usr/bin/env node
// Starts the program for this machine. It is in a package of its own: npm installs the one whose os and cpu fit.
'use strict'

const { spawn } = require('node:child_process')

const name = `${require('./package.json').name}-${process.platform}-${process.arch}`
let program
try {
  program = require.resolve(`${name}/kernos`)
} catch {
  console.error(`kernos: ${name} isn't installed. Either there is no kernos for this machine, or npm was told to omit optional dependencies.`)
  process.exit(1)
}

// Signals are handled before the program runs, so that none ends this process alone.
process.on('SIGINT', () => {}) // a terminal sends it to the program, too
for (const signal of ['SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
const child = spawn(program, process.argv.slice(2), { stdio: 'inherit' })
child.on('error', (error) => {
  console.error(`kernos: ${program} can't be started: ${error.message}`)
  process.exit(1)
})
child.on('exit', (status, signal) => {
  if (!signal) process.exit(status)
  process.removeAllListeners(signal)
  process.kill(process.pid, signal)
})
