// Unpacks the browser, and libraries that a plain system may not have, into the directory for
// temporary files. The package adds the libraries on machines of one kind only, so this says
// that it is one of them.
process.env.AWS_EXECUTION_ENV = 'AWS_Lambda_nodejs20.x';
const { default: chromium } = await import('@sparticuz/chromium');
await chromium.executablePath();
