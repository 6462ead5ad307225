// Starts the page: reads what it was told, opens the runs, shows them, or says why it cannot.

import { App, Config } from './app';
import { RunData } from './data/run';
import { EmbeddedSource, FetchSource } from './data/source';
import { el, visible } from './ui/dom';
import { runOfLink } from './view';

async function start(): Promise<void> {
  const config = JSON.parse(document.getElementById('config')?.textContent ?? '') as Config;
  const source = config.data ? new FetchSource(config.data) : new EmbeddedSource();
  let app: App | undefined;
  const shown = config.one_at_a_time ? [config.runs.find((run) => run.prefix === runOfLink(location.hash)) ?? config.runs[0]] : config.runs;
  const runs = await Promise.all(shown.map((run) => RunData.open(source, run.prefix, run.label, () => app?.redraw())));
  app = new App(runs, source, config);
  Object.assign(window, { foreshard: app });
}

start().catch((error: unknown) => {
  const text = error instanceof Error ? error.message : String(error);
  document.getElementById('app')!.append(el('p', { className: 'failure' }, `This page cannot be shown: ${visible(text)}. It needs a browser of 2023 or later.`));
  console.error(error);
});
