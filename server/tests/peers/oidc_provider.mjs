// A certified OpenID Connect provider (npm `oidc-provider`) on a free loopback port; prints its issuer. Any login will do, with
// the pages that the package brings for development. Usage: node oidc_provider.mjs PEERS
import { createServer } from 'node:http';
import { pathToFileURL } from 'node:url';

const peers = pathToFileURL(`${process.argv[2]}/node_modules/oidc-provider/lib/index.js`);
const { default: Provider } = await import(peers.href);

const server = createServer();
server.listen(0, '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: 'mcpindex',
        client_secret: 'a-secret-of-this-test',
        // A native client's loopback address has any port.
        application_type: 'native',
        redirect_uris: ['http://127.0.0.1/auth/oidc/callback'],
        grant_types: ['authorization_code'],
        response_types: ['code'],
        token_endpoint_auth_method: 'client_secret_basic',
      },
    ],
    cookies: { keys: ['a key of this test'] },
    pkce: { required: () => true },
    claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['preferred_username'] },
    features: { devInteractions: { enabled: true } },
    findAccount: (_context, id) => ({
      accountId: id,
      claims: () => ({
        sub: id,
        email: `${id}@acme.example`,
        email_verified: id !== 'mallory',
        preferred_username: id,
      }),
    }),
  });
  server.on('request', provider.callback());
  console.log(issuer);
});
