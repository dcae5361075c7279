// A subscription client in the style of jsonrpsee, against the server at the address given,
// with the token given, if there is one.
import assert from 'node:assert/strict';

// Newer Node.js has a WebSocket of its own, which the provider would take and which sends no
// headers. Without it, it takes that of ws, which does.
delete globalThis.WebSocket;
const { WsProvider } = await import('@polkadot/rpc-provider/ws');

const notification = 'service_subscription';
const [address, token] = process.argv.slice(2);
const provider = new WsProvider(address, 2500, token ? { Authorization: `Bearer ${token}` } : {});
await provider.isReady;

// collect subscribes to a method and resolves with its items when it is done.
function collect(method, params) {
  return new Promise((resolve, reject) => {
    const items = [];
    provider.subscribe(notification, method, params, (error, item) => {
      if (error) return reject(error);
      items.push(item);
      if (item.type === 'done') resolve(items);
    }).catch(reject);
  });
}

const types = (items) => items.map((item) => item.type).join(' ');

const ping = await collect('kernel_ping', [{ payload: { deep: [1, null, 'ü'] } }]);
assert.equal(types(ping), 'data done');
assert.deepEqual(ping[0].data, { payload: { deep: [1, null, 'ü'] } });
assert.equal(ping[0].content_type, 'kernel.ping');

const steps = await collect('shell_execute', [{}]);
assert.equal(types(steps), 'progress data data done');
assert.equal(steps[0].percentage, 0.5);
assert.deepEqual(steps.map((item) => item.seq), [1, 2, 3, 4]);
assert.ok(steps.every((item) => item.service_hash === ping[0].service_hash));

const typo = await collect('kernel_pign', [{}]);
assert.equal(types(typo), 'guidance error done');
assert.equal(typo[0].suggested_method, 'ping');

// Many at once, each with its own stream.
const many = await Promise.all(Array.from({ length: 100 }, (_, n) => collect('kernel_ping', [{ payload: n }])));
many.forEach((items, n) => assert.equal(items[0].data.payload, n));

// A stream that goes on until it is ended.
let seen;
const first = new Promise((resolve) => { seen = resolve; });
const id = await provider.subscribe(notification, 'shell_follow', [{}], (_, item) => seen(item));
assert.equal((await first).data.stdout, 'first');
assert.equal(await provider.unsubscribe(notification, 'service_unsubscribe', id), true);

await assert.rejects(provider.send('service_resume', ['none-1', 0]), /-32001/);

await provider.disconnect();
console.log('fine');
process.exit(0);
