// Finds ops, host calls and blocks by their names, units and categories, in order of time.

import { RunData } from '../data/run';
import { TableName } from '../data/tables';
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
    return block ? [{ kind: 'block', run: index, id: block.id, time: run.clock.toAxis(block.made) }] : [];
  }
  await run.loadNames();
  const words = text.toLowerCase().split(/\s+/);
  const names = matching(run.names, words);
  const units = matching(run.meta.units, words);
  const categories = matching(run.meta.categories.map((of) => `${of.title} ${of.key}`), words);
  const found: Found[] = [];
  const table = <T extends TableName>(name: T) => run.tiles.load(name, name);
  const [ops, hosts, blocks] = await Promise.all([table('find/ops'), table('find/hostops'), table('find/blocks')]);
  if (ops)
    for (let i = 0; i < ops.name.length; i++)
      if (names[ops.name[i]] || names[ops.symbol[i]] || names[ops.unit[i]]) found.push({ kind: 'op', run: index, id: i, time: ops.start[i] });
  if (hosts)
    for (let i = 0; i < hosts.name.length; i++)
      if (names[hosts.name[i]]) found.push({ kind: 'host', run: index, id: i, time: hosts.start[i] });
  if (blocks)
    for (let i = 0; i < blocks.block.length; i++)
      if (names[blocks.label[i]] || names[blocks.owner[i]] || names[blocks.operator[i]] || names[blocks.frame[i]] || categories[blocks.category[i]] || units[blocks.unit[i]])
        found.push({ kind: 'block', run: index, id: blocks.block[i], time: run.clock.toAxis(blocks.made[i]) });
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
