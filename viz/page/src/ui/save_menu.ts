// The menu of what can be saved or copied.

import { CanvasSurface } from '../draw/surface';
import { Scene } from '../scene';
import { button, el } from './dom';
import { copyPng, copyText, csvOf, pngOf, saveFile, svgOf } from './save';
import { Stage } from './stage';

export function saveMenu(scene: Scene, stage: Stage, say: (text: string) => void): HTMLElement {
  const name = (scene.runs.map((run) => run.meta.name).join('-vs-').replace(/[^\w.-]+/g, '_') || 'run').slice(0, 80);
  const menu = el('details', { className: 'menu' }, el('summary', { title: 'the view as a picture or a table' }, 'Save'));
  const measure = (text: string, size: number) => new CanvasSurface(stage.canvas.getContext('2d')!).textWidth(text, size);
  const entry = (text: string, action: () => void | Promise<void>) =>
    button(text, '', () => {
      menu.open = false;
      void action();
    });
  const svg = () => svgOf(scene, ...stage.size(), measure);
  const copied = (done: boolean) => say(done ? 'Copied.' : 'The browser did not let this page copy; save it instead.');
  menu.append(el('div', { className: 'menu-list' },
    entry('SVG file', () => saveFile(`${name}.svg`, new Blob([svg()], { type: 'image/svg+xml' }))),
    entry('PNG file', async () => saveFile(`${name}.png`, await pngOf(scene, ...stage.size()))),
    entry('CSV file', () => saveFile(`${name}.csv`, new Blob([csvOf(scene)], { type: 'text/csv' }))),
    entry('Copy SVG', async () => copied(await copyText(svg()))),
    entry('Copy PNG', async () => copied(await copyPng(await pngOf(scene, ...stage.size())))),
    entry('Copy CSV', async () => copied(await copyText(csvOf(scene)))),
  ));
  return menu;
}
