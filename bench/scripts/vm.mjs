// Prints how many calls per second Node makes of a function in a new context each.
import vm from "node:vm";

const code = new vm.Script(`
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
JSON.stringify(handler(JSON.parse(input)));
`);
const input = process.argv[2];
const once = () => code.runInContext(vm.createContext({ input }));
for (let i = 0; i < 100; i++) once();
const begin = performance.now();
let calls = 0;
while (performance.now() - begin < 3000) {
  once();
  calls++;
}
console.log((calls * 1000) / (performance.now() - begin));
