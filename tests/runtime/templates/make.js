#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
//
// make.js FOLDER: writes golden.json: what Hugging Face's libraries make of conversations.
//
// FOLDER is one in which `npm i @huggingface/jinja tokenizers` was run, and in which templates/NAME.jinja are the chat templates
// of models of each family, without what they have for tools. Of a template that drops a system text or refuses one, the text
// stands in front of the first question. Tokens are those of the small tokenizers of ../tokenizers, with the tokens of a
// template, "marks", behind their own.
'use strict';
const fs = require('fs');
const path = require('path');
const folder = path.resolve(process.argv[2]);
const {Template} = require(path.join(folder, 'node_modules/@huggingface/jinja'));
const {Tokenizer} = require(path.join(folder, 'node_modules/tokenizers'));

const CHATML = ['<|im_start|>', '<|im_end|>'];
const LLAMA3 = ['<|begin_of_text|>', '<|start_header_id|>', '<|end_header_id|>', '<|eot_id|>'];
const FAMILIES = {
  'llama2': {tokenizer: 'llama2', marks: [], bos: '<s>', eos: '</s>'},
  'llama3': {tokenizer: 'llama3', marks: LLAMA3, bos: '<|begin_of_text|>', eos: '<|eot_id|>'},
  'llama3.1': {tokenizer: 'llama3', marks: LLAMA3, bos: '<|begin_of_text|>', eos: '<|eot_id|>'},
  'mistral-v1': {tokenizer: 'mistral', marks: [], bos: '<s>', eos: '</s>', merges: true},
  'mistral': {tokenizer: 'mistral', marks: ['[INST]', '[/INST]'], bos: '<s>', eos: '</s>', merges: true},
  'mistral-tekken': {tokenizer: 'tekken', marks: ['[INST]', '[/INST]'], bos: '<s>', eos: '</s>', merges: true},
  'chatml': {tokenizer: 'qwen2', marks: CHATML, bos: '', eos: '<|im_end|>'},
  'qwen2': {tokenizer: 'qwen2', marks: CHATML, bos: '', eos: '<|im_end|>'},
  'qwen3': {tokenizer: 'qwen2', marks: CHATML, bos: '', eos: '<|im_end|>'},
  'smollm': {tokenizer: 'smollm', marks: CHATML, bos: '', eos: '<|im_end|>'},
  'gemma': {tokenizer: 'gemma', marks: ['<bos>', '<start_of_turn>', '<end_of_turn>'], bos: '<bos>', eos: '<end_of_turn>'},
  'phi3': {tokenizer: 'phi3', marks: ['<|system|>', '<|assistant|>'], rstrip: true, bos: '', eos: '</s>'},
  'plain': {tokenizer: 'gpt2', marks: [], bos: '', eos: '<|endoftext|>'},
};

const talk = (system, ...turns) => [
  ...(system === null ? [] : [{role: 'system', content: system}]),
  ...turns.map((content, i) => ({role: i % 2 ? 'assistant' : 'user', content})),
];
const CONVERSATIONS = [
  talk(null, 'Where does the heron stand?', 'On one leg, in the reeds.'),
  talk('You answer in one word.', 'Is the kettle on?', 'Yes.', 'And the lamp?', 'No.'),
  talk(null, '  two blanks \n', ' an answer between blanks ', '\n\tthen\n', '\nlines\n\n'),
  talk('  a system text, loosely set ', ' why ', ' because\n'),
  talk(null, 'Zähle: 一, 二, 三 😀', 'четыре, five ½\u00a0', 'int x = 3;\r\n', '\tx += 4; /* 7 */\n'),
  talk(null, 'think aloud', '<think>\nif a, then b\n</think>\n\nb', 'again?', '<think>still b</think>b'),
  talk(null, 'what now', '<think>\n\n</think>\n\nnothing', 'and then', '\n\nplain'),
  talk('Be brief.', 'a question that waits for its answer'),
  talk(null, 'one', 'two', 'three'),
];

function withSystemMerged(messages) {
  if (messages[0].role !== 'system') return messages;
  const [system, user, ...rest] = messages;
  return [{role: 'user', content: system.content + '\n\n' + user.content}, ...rest];
}

// Where a template says strip('\n'), the library in JavaScript strips all white space. A template that says so always does.
function withPythonStrip(strips, render) {
  const {trim, trimStart, trimEnd} = String.prototype;
  if (strips) {
    String.prototype.trimStart = function () { return this.replace(/^\n+/, ''); };
    String.prototype.trimEnd = function () { return this.replace(/\n+$/, ''); };
    String.prototype.trim = function () { return this.trimStart().trimEnd(); };
  }
  try {
    return render();
  } finally {
    Object.assign(String.prototype, {trim, trimStart, trimEnd});
  }
}

function load(family) {
  const file = path.join(__dirname, '../tokenizers', family.tokenizer + '.json');
  const t = JSON.parse(fs.readFileSync(file));
  for (const content of family.marks)
    if (!t.added_tokens.some((a) => a.content === content))
      t.added_tokens.push({id: 0, content, single_word: false, lstrip: false, rstrip: !!family.rstrip, normalized: false, special: true});
  return Tokenizer.fromString(JSON.stringify(t));
}

(async () => {
  const out = {conversations: CONVERSATIONS, templates: {}};
  for (const [name, f] of Object.entries(FAMILIES)) {
    const template = new Template(fs.readFileSync(path.join(folder, 'templates', name + '.jinja'), 'utf8'));
    const tokenizer = load(f);
    const texts = [], tokens = [];
    for (const messages of CONVERSATIONS) {
      const waits = messages[messages.length - 1].role === 'user';
      const text = withPythonStrip(name === 'qwen3', () => template.render({
        messages: f.merges ? withSystemMerged(messages) : messages,
        bos_token: f.bos, eos_token: f.eos, add_generation_prompt: waits,
      }));
      texts.push(text);
      tokens.push((await tokenizer.encode(text, null, {addSpecialTokens: false})).getIds());
    }
    out.templates[name] = {tokenizer: f.tokenizer, eos: f.eos, marks: f.marks, rstrip: !!f.rstrip, texts, tokens};
  }
  const rows = (list) => '[\n' + list.map((x) => '   ' + JSON.stringify(x)).join(',\n') + ']';
  const parts = Object.entries(out.templates).map(([name, t]) => ` ${JSON.stringify(name)}: {"tokenizer": "${t.tokenizer}", ` +
    `"eos": "${t.eos}", "marks": ${JSON.stringify(t.marks)}, "rstrip": ${t.rstrip},\n  "texts": ${rows(t.texts)},\n  "tokens": ${rows(t.tokens)}}`);
  fs.writeFileSync(path.join(__dirname, 'golden.json'),
    `{"conversations": ${rows(out.conversations)},\n"templates": {\n${parts.join(',\n')}}}\n`);
})();
