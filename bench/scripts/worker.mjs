// Prints how many calls per second Deno makes of a function in a new worker each.
const code = `
const round = (amount) => Math.round(amount * 100) / 100;
function price(line) {
  if (line.quantity < 0) throw new RangeError("a quantity can't be negative: " + line.description);
  return line.quantity * line.unitPrice * (1 - (line.discount ?? 0));
}
const handler = (invoice) => {
  const net = round(invoice.lines.map(price).reduce((sum, p) => sum + p, 0));
  const tax = round(net * invoice.taxRate);
  const gross = round(net + tax);
  return { net, tax, gross, lines: invoice.lines.length, text: invoice.customer + ": " + gross.toFixed(2) + " " + invoice.currency };
};
self.onmessage = (e) => self.postMessage(JSON.stringify(handler(JSON.parse(e.data))));
`;
const url = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
const once = () => new Promise((resolve) => {
  const worker = new Worker(url, { type: "module" });
  worker.onmessage = (e) => {
    worker.terminate();
    resolve(e.data);
  };
  worker.postMessage(Deno.args[0]);
});
for (let i = 0; i < 5; i++) await once();
const begin = performance.now();
let calls = 0;
while (performance.now() - begin < 3000) {
  await once();
  calls++;
}
console.log((calls * 1000) / (performance.now() - begin));
