// The client of OpenRPC, against the server at the address given.
import { Client, RequestManager, WebSocketTransport } from '@open-rpc/client-js';
import assert from 'node:assert/strict';

const transport = new WebSocketTransport(process.argv[2]);
const client = new Client(new RequestManager([transport]));

// What comes before the id of its stream is known waits here.
const streams = new Map();
function stream(id) {
  if (!streams.has(id)) {
    const entry = { items: [] };
    entry.done = new Promise((resolve) => { entry.resolve = resolve; });
    streams.set(id, entry);
  }
  return streams.get(id);
}
client.onNotification(({ method, params }) => {
  assert.equal(method, 'service_subscription');
  const entry = stream(params.subscription);
  entry.items.push(params.result);
  if (params.result.type === 'done') entry.resolve(entry.items);
});
const call = async (method, params) => stream(await client.request({ method, params })).done;

const document = await client.request({ method: 'rpc.discover', params: [] });
assert.equal(document.openrpc, '1.3.2');
const ping = document.methods.find((m) => m.name === 'kernel_ping');
assert.deepEqual(ping.params.map((p) => p.name), ['payload']);

// By name, as the document says, and by position.
for (const params of [{ payload: 'a' }, ['a'], [{ payload: 'a' }]]) {
  const items = await call('kernel_ping', params);
  assert.deepEqual(items.map((item) => item.type), ['data', 'done']);
  assert.deepEqual(items[0].data, { payload: 'a' });
}

// A batch.
client.startBatch();
const both = [call('kernel_ping', [1]), call('kernel_ping', [2])];
client.stopBatch();
assert.deepEqual((await Promise.all(both)).map((items) => items[0].data.payload), [1, 2]);

await assert.rejects(client.request({ method: 'rpc.nothing', params: [] }), /Method not found/);

// A notification has no answer; the call after it has.
await client.notify({ method: 'kernel_ping', params: ['quiet'] });
const hash = await call('service_hash', []);
assert.equal(hash[0].data.hash, hash[0].service_hash);

client.close();
console.log('fine');
process.exit(0);
