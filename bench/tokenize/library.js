// SPDX-License-Identifier: Apache-2.0
// library.js FOLDER TOKENIZER.json OUT FILE...: tokenizes each file by Hugging Face's library, which `npm i tokenizers` put into
// FOLDER, writes all tokens into OUT, 32 bits each, and prints the seconds that the library took. RAYON_NUM_THREADS says how many
// threads it may use.
const fs = require('fs');
const [folder, tokenizer, out, ...files] = process.argv.slice(2);
const {Tokenizer} = require(folder + '/node_modules/tokenizers');
const BATCH = 64;

(async () => {
    const t = Tokenizer.fromFile(tokenizer);
    const fd = fs.openSync(out, 'w');
    let seconds = 0;
    for (let i = 0; i < files.length; i += BATCH) {
        const texts = files.slice(i, i + BATCH).map(name => fs.readFileSync(name).toString('utf8'));
        const before = process.hrtime.bigint();
        const encodings = await t.encodeBatch(texts, {addSpecialTokens: true});
        seconds += Number(process.hrtime.bigint() - before) / 1e9;
        for (const e of encodings)
            fs.writeSync(fd, Buffer.from(Uint32Array.from(e.getIds()).buffer));
    }
    console.log(seconds.toFixed(3));
})();
