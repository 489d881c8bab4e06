// A sign-in provider that lets anybody in as whom they say to be: oidc-provider with its pages for development. Its first
// argument is where it sends browsers back to; it prints its address and goes on until its standard input ends.

import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const packages = createRequire(`${process.env.COUNTERSIGN_TEST_NODE}/package.json`);
const { Provider } = await import(pathToFileURL(packages.resolve('oidc-provider')));

const server = createServer();
await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
const address = `http://127.0.0.1:${server.address().port}`;
const provider = new Provider(address, {
  clients: [{
    client_id: 'countersign',
    client_secret: 'a-secret-of-the-test',
    redirect_uris: [process.argv[2]],
    response_types: ['code'],
    grant_types: ['authorization_code'],
  }],
  pkce: { required: () => true },
  cookies: { keys: ['a-key-of-the-test'] },
  claims: { openid: ['sub'] },
  async findAccount(_, id) {
    return { accountId: id, async claims() { return { sub: id }; } };
  },
});
server.on('request', provider.callback());
console.log(address);
process.stdin.resume();
process.stdin.on('end', () => process.exit(0));
