// The library of sdk/typescript in a web page. Each step resolves with what the page was told.
// The address of the page says where the kernel is, the token, and where to report.
import { connect } from '/kernos.js';

const given = new URL(location).searchParams;
const url = given.get('kernel');
const token = given.get('token');
const key = '/browser/library';
const pieces = ['x'.repeat(9000), 'y'.repeat(9000)];
const code = (promise) => promise.then((value) => `answered ${JSON.stringify(value)}`, (error) => `${error.name} ${error.code}`);

const outcomes = {};
try {
  const client = await connect({ url: url.replace('http', 'ws'), token });
  const steps = {
    set: async () => JSON.stringify(await client.command('Memory.Set', { key, value: ['grün', 1] }, { key: 'once' })),
    get: async () => JSON.stringify(await client.query('Memory.Get', { key })),
    ping: async () => JSON.stringify(await client.query('Ping', { payload: 1 })),
    files: async () => (await client.query('VFS.List', { uri: 'os://' })).entries.length > 0 ? 'some' : 'none',
    missing: () => code(client.query('Memory.Get', { key: '/browser/missing' })),
    unknown: () => code(client.query('Memory.Gett', { key })),
    large: () => code(client.query('Ping', { payload: 'x'.repeat(20000) })),
    // A reply that is too long for a message comes by reference, which the page fetches.
    reference: async () => {
      for (const value of pieces) await client.command('Memory.Set', { key: '/browser/long', value });
      const history = await client.query('Memory.History', { key: '/browser/long' });
      return String(history.versions.map((version) => version.value[0]));
    },
    handler: () => code(client.handle('Text.Browser', {}, () => {})),
    closed: async () => {
      client.close();
      await client.closed;
      return code(client.query('Ping', { payload: 1 }));
    },
    'another token': () => code(connect({ url: url.replace('http', 'ws'), token: 'another' })),
    'over http': () => code(connect({ url, token })),
    'over a process': () => code(connect()),
    'over a socket': () => code(connect({ socket: '/run/kernos.sock' })),
  };
  for (const [name, step] of Object.entries(steps)) outcomes[name] = await step();
} catch (error) {
  outcomes.error = String(error.stack);
}
await fetch(given.get('report'), { method: 'POST', mode: 'no-cors', body: JSON.stringify(outcomes) });
