// A registry of npm with the packages that a file lists. Every other name belongs to a stranger, unless it is one that the
// public registry refuses. It prints its address, then each request.
'use strict'

const fs = require('node:fs')
const http = require('node:http')
const path = require('node:path')

const list = process.argv[2]
const packages = JSON.parse(fs.readFileSync(list)) // the manifest of each name, and its file
const file = (name) => path.join(path.dirname(list), name)

const server = http.createServer((request, response) => {
  console.log(`${request.method} ${request.url}`)
  const name = decodeURIComponent(request.url.slice(1))
  if (name.endsWith('.tgz')) return response.end(fs.readFileSync(file(path.basename(name))))
  if (request.method !== 'GET' || name !== name.toLowerCase()) return response.writeHead(404).end('{}')
  const found = packages[name] ?? { ...packages.stranger, name, version: '99.0.0' }
  const { version } = found
  const tarball = `http://${request.headers.host}/${found.file}`
  response.end(JSON.stringify({ name, 'dist-tags': { latest: version }, versions: { [version]: { ...found, dist: { tarball } } } }))
})
server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}/`))
