"""An HTTP server with the APIs of OpenAI and Anthropic, and a chat page. Needs the extra `server`.

From the socket inwards: security.py refuses what is not meant for us, app.py knows the addresses, one module for each
API (chat.py, completions.py, responses.py, anthropic.py) turns requests into questions and answers into that API's
form, answers.py checks a question and has it answered, queue.py decides whose turn it is.
"""
