// What a web page can do to reach a kernel. Each attempt stores a value under its own name if
// it gets through, and resolves with what the page was told. The address of the page says
// where the kernel is, the token, and where to report.
const given = new URL(location).searchParams;
const kernel = given.get('kernel') || location.origin;
const token = given.get('token');

const set = (name) => ({ key: `/browser/${name}`, value: location.origin });
const line = (name) => `${JSON.stringify({
  kind: 'command', type: 'Memory.Set', data: set(name), metadata: { id: name, timestamp: 1735000000000 },
})}\n`;

async function request(path, options) {
  try {
    const answer = await fetch(kernel + path, options);
    if (answer.type === 'opaque') return 'opaque';
    return answer.ok ? 'fine' : `${answer.status} ${(await answer.json()).name}`;
  } catch (error) {
    return error.name;
  }
}

// socket calls over a WebSocket, and resolves with the types of the items that come.
function socket(path, protocols, name) {
  return new Promise((resolve) => {
    const ws = new WebSocket(kernel.replace('http', 'ws') + path, protocols);
    const items = [];
    ws.onopen = () => ws.send(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'memory_set', params: [set(name)] }));
    ws.onmessage = ({ data }) => {
      const item = JSON.parse(data).params?.result;
      if (item) items.push(item.type);
      if (item?.type === 'done') {
        resolve(`${ws.protocol}: ${items.join(' ')}`);
        ws.close();
      }
    };
    ws.onclose = ({ code }) => resolve(`closed ${code}`);
  });
}

// embed puts an element into the page, and resolves when it has loaded or failed.
function embed(tag, properties) {
  return new Promise((resolve) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.onload = () => resolve('loaded');
    element.onerror = () => resolve('error');
    document.body.append(element);
  });
}

// form sends a form whose encoding leaves JSON as it is, and resolves with what the page can
// read in the frame where the answer went.
async function form(name) {
  const frame = Object.assign(document.createElement('iframe'), { name: 'answer' });
  document.body.append(frame);
  const sender = Object.assign(document.createElement('form'), {
    action: `${kernel}/v1/call/memory/set`, method: 'post', enctype: 'text/plain', target: 'answer',
  });
  const text = JSON.stringify(set(name));
  // The browser puts a = between the two, which becomes part of the value that is stored.
  sender.append(Object.assign(document.createElement('input'), { name: text.slice(0, -2), value: text.slice(-2) }));
  document.body.append(sender);
  const loaded = new Promise((resolve) => { frame.onload = resolve; });
  sender.submit();
  await loaded;
  const read = frame.contentDocument?.body.textContent;
  return read ? JSON.parse(read).name : 'unreadable';
}

// sandboxed does it from a frame that has no origin.
function sandboxed(name) {
  return new Promise((resolve) => {
    addEventListener('message', ({ data }) => resolve(data));
    const script = `fetch(${JSON.stringify(`${kernel}/v1/call/memory/set`)}, { method: 'POST', body: ${JSON.stringify(JSON.stringify(set(name)))} })
      .then((answer) => String(answer.status), (error) => error.name).then((outcome) => parent.postMessage(outcome, '*'))`;
    document.body.append(Object.assign(document.createElement('iframe'), { sandbox: 'allow-scripts', srcdoc: `<script>${script}</script>` }));
  });
}

function events() {
  return new Promise((resolve) => {
    const source = new EventSource(`${kernel}/v1/call/kernel/ping`);
    source.onerror = () => { source.close(); resolve('error'); };
    source.onmessage = () => { source.close(); resolve('message'); };
  });
}

const plain = (body) => ({ method: 'POST', headers: { 'Content-Type': 'text/plain' }, body });
const attempts = {
  'socket-token': (name) => socket('/', ['kernos', `kernos.token.${token}`], name),
  'socket-plain': (name) => socket('/ws', [], name),
  'call-token': (name) => request('/v1/call/memory/set', {
    method: 'POST', headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${token}` }, body: JSON.stringify(set(name)),
  }),
  'call-plain': (name) => request('/v1/call/memory/set', plain(JSON.stringify(set(name)))),
  'messages-plain': (name) => request('/v1/messages', plain(line(name))),
  'messages-opaque': (name) => request('/v1/messages', { ...plain(line(name)), mode: 'no-cors' }),
  beacon: (name) => String(navigator.sendBeacon(`${kernel}/v1/messages`, line(name))),
  form,
  sandboxed,
  events,
  health: () => request('/healthz', { mode: 'no-cors' }),
  image: () => embed('img', { src: `${kernel}/v1/blobs/0` }),
  script: () => embed('script', { src: `${kernel}/openrpc.json` }),
};

const outcomes = {};
try {
  if (given.has('wait')) await fetch(given.get('wait'));
  for (const [name, attempt] of Object.entries(attempts)) outcomes[name] = await attempt(name);
} catch (error) {
  outcomes.error = String(error.stack);
}
await fetch(given.get('report'), { method: 'POST', mode: 'no-cors', body: JSON.stringify(outcomes) });
