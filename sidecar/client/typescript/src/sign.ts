/** Signatures of requests: RFC 9421 with Ed25519, and the Content-Digest of RFC 9530. Web Crypto and nothing else. */
import { HenceError } from './errors.js'

/** Headers that mean something to a sidecar, besides those that begin with one of the starts. */
const binds = new Set(['idempotency-key', 'if-match', 'if-none-match', 'content-type', 'content-encoding', 'content-digest',
  'last-event-id'])
const starts = ['hence-', 'x-sbus-', 'mcp-']

export interface Signer {
  /** The headers of one try, with its signature. */
  sign(method: string, target: string, headers: Record<string, string>, body?: string): Promise<Record<string, string>>
}

/** Signs with a private key in PEM, as `hence keys new` makes it. */
export async function signer(pem: string): Promise<Signer> {
  const found = /-----BEGIN PRIVATE KEY-----([\s\S]+?)-----END PRIVATE KEY-----/.exec(pem)
  if (!found?.[1]) throw new HenceError('the key is no private key in PEM: hence keys new makes one')
  const der = Uint8Array.from(atob(found[1].replace(/\s+/g, '')), (c) => c.charCodeAt(0))
  let key: CryptoKey
  try {
    key = await crypto.subtle.importKey('pkcs8', der, 'Ed25519', true, ['sign'])
  } catch (e) {
    throw new HenceError(`the key is not one of Ed25519: hence keys new makes one (${e})`)
  }
  const { x = '' } = await crypto.subtle.exportKey('jwk', key)
  const raw = Uint8Array.from(atob(x.replace(/-/g, '+').replace(/_/g, '/')), (c) => c.charCodeAt(0))
  const keyid = base64url(await sha256(raw))
  return {
    async sign(method, target, headers, body = '') {
      const out = { ...headers }
      if (body) out['Content-Digest'] = `sha-256=:${base64(await sha256(new TextEncoder().encode(body)))}:`
      const url = new URL(target)
      const covered: [string, string][] = [['@method', method], ['@authority', url.host], ['@path', url.pathname],
        ['@query', url.search || '?']]
      const bound = Object.entries(out).map(([name, value]): [string, string] => [name.toLowerCase(), value.trim()])
        .filter(([name]) => binds.has(name) || starts.some((s) => name.startsWith(s)))
      covered.push(...bound.sort(([a], [b]) => (a < b ? -1 : 1)))
      const nonce = base64url(crypto.getRandomValues(new Uint8Array(24)).buffer)
      const params = `(${covered.map(([name]) => `"${name}"`).join(' ')});created=${Math.floor(Date.now() / 1000)}` +
        `;nonce="${nonce}";keyid="${keyid}";alg="ed25519";tag="hence"`
      const text = covered.map(([name, value]) => `"${name}": ${value}\n`).join('') + `"@signature-params": ${params}`
      const signed = await crypto.subtle.sign('Ed25519', key, new TextEncoder().encode(text))
      return { ...out, 'Signature-Input': 'hence=' + params, Signature: `hence=:${base64(signed)}:` }
    },
  }
}

/** The private key in a file, which others may not read. */
export async function keyIn(path: string): Promise<string> {
  const { readFile, stat } = await import('node:fs/promises')
  const { mode, uid } = await stat(path)
  if ((mode & 0o077) !== 0 && uid === globalThis.process?.geteuid?.()) {
    throw new HenceError(`the key file ${path} is open to others: run chmod 600 ${path}`)
  }
  return readFile(path, 'utf8')
}

function sha256(bytes: Uint8Array<ArrayBuffer>): Promise<ArrayBuffer> {
  return crypto.subtle.digest('SHA-256', bytes)
}

function base64(bytes: ArrayBuffer): string {
  return btoa(String.fromCharCode(...new Uint8Array(bytes)))
}

function base64url(bytes: ArrayBuffer): string {
  return base64(bytes).replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, '')
}
