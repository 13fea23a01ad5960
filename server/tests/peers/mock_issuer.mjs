// An issuer that can be told to sign what is wrong (npm `oauth2-mock-server`), on a free loopback port; prints its issuer. Each
// line on its stdin is the member of the next tokens to be wrong, and is answered with `ok`. Usage: node mock_issuer.mjs PEERS
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const peers = pathToFileURL(`${process.argv[2]}/node_modules/oauth2-mock-server/dist/index.mjs`);
const { OAuth2Server } = await import(peers.href);

const server = new OAuth2Server();
await server.issuer.keys.generate('RS256');
await server.start(0, '127.0.0.1');
server.issuer.url = `http://127.0.0.1:${server.address().port}`;

const wrong = {
  nothing: () => {},
  iss: (token) => (token.payload.iss = 'https://evil.example'),
  aud: (token) => (token.payload.aud = 'another-client'),
  exp: (token) => (token.payload.exp = Math.floor(Date.now() / 1000) - 3600),
  nonce: (token) => delete token.payload.nonce,
  kid: (token) => (token.header.kid = 'nobodys'),
};
let now = 'nothing';
server.service.on('beforeTokenSigning', (token) => {
  Object.assign(token.payload, {
    sub: 'subject-1',
    email: 'alice@acme.example',
    email_verified: true,
    preferred_username: 'alice',
  });
  wrong[now](token);
});
createInterface({ input: process.stdin }).on('line', (line) => {
  now = line;
  console.log('ok');
});
console.log(server.issuer.url);
