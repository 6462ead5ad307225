// Bundles the page into one HTML template: `node build.mjs [OUTPUT]`. The same sources give the same bytes.
import { buildSync } from 'esbuild';
import { readFileSync, writeFileSync, mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const output = process.argv[2] ?? join(here, 'dist', 'page.html');

const bundle = (entry) =>
  buildSync({
    entryPoints: [join(here, 'src', entry)],
    bundle: true,
    minify: true,
    charset: 'ascii',
    format: 'iife',
    target: 'es2022',
    legalComments: 'none',
    write: false,
    absWorkingDir: here,
  }).outputFiles[0].text.trim();

const script = bundle('main.ts').replaceAll('</', '<\\/');
const style = bundle('style.css');
const page = readFileSync(join(here, 'src', 'template.html'), 'utf8')
  .replace('/*STYLE*/', () => style)
  .replace('/*SCRIPT*/', () => script);
mkdirSync(dirname(output), { recursive: true });
writeFileSync(output, page);
