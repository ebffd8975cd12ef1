// SPDX-License-Identifier: Apache-2.0
// where.js FOLDER TOKENIZER.json TOKEN N FILE...: in which of the files is that token, counted through all of them, and what stands
// there: N characters on each side, by Hugging Face's library, which `npm i tokenizers` put into FOLDER. JSON.
const fs = require('fs');
const [folder, tokenizer, token, n, ...files] = process.argv.slice(2);
const {Tokenizer} = require(folder + '/node_modules/tokenizers');

(async () => {
    const t = Tokenizer.fromFile(tokenizer);
    let left = Number(token);
    for (const file of files) {
        const text = fs.readFileSync(file).toString('utf8');
        const e = await t.encode(text, null, {addSpecialTokens: true});
        if (left < e.getLength() || file === files[files.length - 1]) {
            const letters = Array.from(text);
            const at = (e.getOffsets()[left] || [letters.length])[0];
            const cut = (from, to) => letters.slice(Math.max(from, 0), to).join('');
            console.log(JSON.stringify({file, token: left, character: at, before: cut(at - Number(n), at), behind: cut(at, at + Number(n))}));
            return;
        }
        left -= e.getLength();
    }
})();
