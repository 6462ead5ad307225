// Finds ops, host calls and blocks by their names, units and categories, in order of time.

import { RunData } from '../data/run';
import { Selection } from '../view';

export interface Found extends Selection {
  time: number;
}

const MOST = 200_000;

function matching(texts: string[], words: string[]): Uint8Array {
  const out = new Uint8Array(texts.length);
  texts.forEach((text, i) => {
    const lower = text.toLowerCase();
    if (words.every((word) => lower.includes(word))) out[i] = 1;
  });
  return out;
}

async function inRun(run: RunData, index: number, text: string): Promise<Found[]> {
  const number = /^#(\d+)$/.exec(text);
  if (number) {
    const block = await run.block(Number(number[1]));
    return block ? [{ kind: 'block', run: index, id: block.id, time: block.made }] : [];
  }
  await run.loadNames();
  const words = text.toLowerCase().split(/\s+/);
  const names = matching(run.names, words);
  const units = matching(run.meta.units, words);
  const categories = matching(run.meta.categories.map((of) => `${of.title} ${of.key}`), words);
  const found: Found[] = [];
  const [ops, hosts, blocks] = await Promise.all(['find/ops', 'find/hostops', 'find/blocks'].map((name) => run.tiles.load(name)));
  if (ops)
    for (let i = 0; i < ops[0].length; i++)
      if (names[ops[0][i]] || names[ops[1][i]]) found.push({ kind: 'op', run: index, id: i, time: ops[2][i] });
  if (hosts)
    for (let i = 0; i < hosts[0].length; i++)
      if (names[hosts[0][i]]) found.push({ kind: 'host', run: index, id: i, time: hosts[1][i] });
  if (blocks)
    for (let i = 0; i < blocks[0].length; i++)
      if (names[blocks[1][i]] || categories[blocks[2][i]] || units[blocks[3][i]])
        found.push({ kind: 'block', run: index, id: blocks[0][i], time: blocks[4][i] });
  return found;
}

/** By time; at most MOST, and whether there were more. */
export async function search(runs: RunData[], text: string): Promise<{ found: Found[]; more: boolean }> {
  const trimmed = text.trim();
  if (!trimmed) return { found: [], more: false };
  const all = (await Promise.all(runs.map((run, i) => inRun(run, i, trimmed)))).flat();
  all.sort((a, b) => a.time - b.time);
  return { found: all.slice(0, MOST), more: all.length > MOST };
}
