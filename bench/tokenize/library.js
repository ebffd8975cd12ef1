// SPDX-License-Identifier: Apache-2.0
// library.js FOLDER TOKENIZER.json OUT FILE...: tokenizes each file by Hugging Face's library, which `npm i tokenizers` put into
// FOLDER, writes all tokens into OUT, 32 bits each, and prints the seconds that the library took. RAYON_NUM_THREADS says how many
// threads it may use.
const fs = require('fs');
const [folder, tokenizer, out, ...files] = process.argv.slice(2);
const {Tokenizer} = require(folder + '/node_modules/tokenizers');
const BATCH = 64;
const BYTES = 1 << 20; // of a batch, but for the last of its files: what the library keeps of a text is a hundred times as long

// As many files as make a batch, from number I on.
function batch(i) {
    const texts = [];
    for (let bytes = 0; i < files.length && texts.length < BATCH && bytes < BYTES; i++) {
        const text = fs.readFileSync(files[i]);
        bytes += text.length;
        texts.push(text.toString('utf8'));
    }
    return texts;
}

(async () => {
    const t = Tokenizer.fromFile(tokenizer);
    const fd = fs.openSync(out, 'w');
    let seconds = 0;
    for (let i = 0; i < files.length;) {
        const texts = batch(i);
        i += texts.length;
        const before = process.hrtime.bigint();
        const encodings = await t.encodeBatch(texts, {addSpecialTokens: true});
        seconds += Number(process.hrtime.bigint() - before) / 1e9;
        for (const e of encodings)
            fs.writeSync(fd, Buffer.from(Uint32Array.from(e.getIds()).buffer));
    }
    console.log(seconds.toFixed(3));
})();
