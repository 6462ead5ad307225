// Where pieces come from: embedded in this file, or from a server. Both give the same bytes.

export interface DataSource {
  /** The piece's zlib stream; undefined where there is none of that name. */
  piece(name: string): Promise<Uint8Array | undefined>;
}

/** Pieces as base64 text in <script type="text/plain" id="data:NAME">. */
export class EmbeddedSource implements DataSource {
  async piece(name: string): Promise<Uint8Array | undefined> {
    const element = document.getElementById(`data:${name}`);
    if (!element) return undefined;
    const text = atob(element.textContent ?? '');
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    return bytes;
  }
}

/** Pieces as files below an address: `base` + NAME. */
export class FetchSource implements DataSource {
  constructor(private readonly base: string) {}

  async piece(name: string): Promise<Uint8Array | undefined> {
    const answer = await fetch(this.base + name.split('/').map(encodeURIComponent).join('/'));
    if (answer.status === 404) return undefined;
    if (!answer.ok) throw new Error(`${name}: the server answers ${answer.status}`);
    return new Uint8Array(await answer.arrayBuffer());
  }
}

export async function inflate(bytes: Uint8Array): Promise<Uint8Array> {
  const stream = new Blob([bytes as BlobPart]).stream().pipeThrough(new DecompressionStream('deflate'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

export async function json<T>(source: DataSource, name: string): Promise<T | undefined> {
  const bytes = await source.piece(name);
  return bytes ? (JSON.parse(new TextDecoder().decode(await inflate(bytes))) as T) : undefined;
}
