// Checks the description of the server at the address given as OpenAPI 3.1, and calls ten routes with a client that is
// made of nothing but the description. Each reply must fit the schema that describes it.
import { Validator } from '@seriousme/openapi-schema-validator';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { OpenAPIClientAxios } from 'openapi-client-axios';
import assert from 'node:assert/strict';

const [address, token] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${token}` };
const response = await fetch(`${address}/openapi.json`, { headers });
assert.equal(response.status, 200);
const description = await response.json();
assert.match(description.openapi, /^3\.1\./);

const checked = await new Validator().validate(structuredClone(description));
assert.ok(checked.valid, JSON.stringify(checked.errors, null, 1));

// All schemas of calls are JSON Schema, whose references lead somewhere.
const schemas = addFormats(new Ajv2020({ strict: false, logger: false }));
schemas.addSchema(description, 'description');
const escaped = (part) => encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1'));
const place = (...parts) => `description#/${parts.map(escaped).join('/')}`;
const ids = new Map();
for (const [path, item] of Object.entries(description.paths)) {
	for (const [method, operation] of Object.entries(item)) {
		assert.ok(!ids.has(operation.operationId), `${operation.operationId} is the id of two operations`);
		ids.set(operation.operationId, { path, method });
		for (const where of [['requestBody'], ...Object.keys(operation.responses).map((status) => ['responses', status])]) {
			const at = where.reduce((value, part) => value?.[part], operation);
			if (at?.content?.['application/json']?.schema) {
				schemas.compile({ $ref: place('paths', path, method, ...where, 'content', 'application/json', 'schema') });
			}
		}
	}
}
assert.ok(ids.size > 100, `only ${ids.size} operations`);

const client = await new OpenAPIClientAxios({ definition: description, withServer: { url: address } }).init();
client.defaults.headers.common.Authorization = headers.Authorization;

const called = new Set();
async function call(id, parameters, body, status = 200) {
	const { path, method } = ids.get(id) ?? assert.fail(`${id} isn't described`);
	called.add(id);
	const answer = await client[id](parameters, body, { validateStatus: () => true });
	assert.equal(answer.status, status, `${id}: ${JSON.stringify(answer.data)}`);
	const described = description.paths[path][method].responses[status] ?? description.paths[path][method].responses.default;
	const schema = described.$ref ? place('components', 'responses', 'Error', 'content', 'application/json', 'schema')
		: described.content?.['application/json']?.schema && place('paths', path, method, 'responses', String(status), 'content', 'application/json', 'schema');
	const fits = schema ? schemas.compile({ $ref: schema }) : () => true;
	assert.ok(fits(answer.data), `${id}: ${JSON.stringify(answer.data)} ${JSON.stringify(fits.errors)}`);
	return answer.data;
}

assert.equal((await call('memory_set', { 'Idempotency-Key': 'buy-milk' }, { key: 'notes/1', value: 'milk' })).success, true);
assert.equal(await call('memory_get', null, { key: 'notes/1' }), 'milk');
assert.equal((await call('memory_get', null, { key: 'notes/2' }, 404)).code, 404);
assert.match((await call('memory_get', null, {}, 422)).message, /key/);
assert.ok((await call('memory_list', null, { recursive: true })).keys.includes('notes/1'));
assert.deepEqual(await call('kernel_ping', null, { payload: [1, 'two'] }), { payload: [1, 'two'] });
assert.ok((await call('syscall_list', null, {})).syscalls.length > 50);
assert.equal((await call('syscall_describe', null, { name: 'Memory.Get' })).kind, 'query');
assert.equal((await call('get_healthz')).status, 'ok');
assert.equal((await call('get_readyz')).status, 'ready');
assert.ok((await call('get_openrpc_json')).methods.length > 50);
assert.equal((await call('get_metrics', null, null, 403)).name, 'forbidden');
assert.equal((await call('get_v1_blobs_id', { id: 'none' }, null, 400)).name, 'bad_blob_id');
assert.ok(called.size >= 10);

// What this caller may not call isn't described.
assert.ok(!ids.has('token_create'));
console.log('fine');
